// What a page must hold to in any width and either theme. Each function gives a list of complaints.
({
  // Every link leads somewhere, every name is given once, and nothing is asked for from outside.
  links: function (neighbours) {
    var said = [], seen = {};
    document.querySelectorAll("[id]").forEach(function (one) {
      if (seen[one.id]) { said.push("two elements have the id " + one.id); }
      seen[one.id] = true;
    });
    document.querySelectorAll("a[href]").forEach(function (link) {
      var to = link.getAttribute("href");
      if (to[0] === "#" ? !seen[to.slice(1)] : neighbours.indexOf(to) < 0) { said.push("a link to " + to + " leads nowhere"); }
    });
    document.querySelectorAll("[aria-labelledby]").forEach(function (one) {
      if (!seen[one.getAttribute("aria-labelledby")]) { said.push("no label " + one.getAttribute("aria-labelledby")); }
    });
    document.querySelectorAll("[src], link, iframe, object, embed, base, form").forEach(function (one) {
      said.push("<" + one.tagName.toLowerCase() + "> can ask for something");
    });
    return said;
  },
  // Whatever a table of hosts is sorted by, what is worst in it comes first; by name, all are as they stand.
  sorted: function () {
    var said = [], rows = Array.prototype.slice.call(document.querySelectorAll(".heat tbody tr"));
    document.querySelectorAll(".heat input[type=radio]").forEach(function (radio) {
      radio.click();
      var by = radio.id.slice(3), place = function (row) { return row.getBoundingClientRect().top; };
      var worth = function (row) { var found = new RegExp("(?:^| )" + by + "([0-9])(?: |$)").exec(row.className); return found ? Number(found[1]) : 0; };
      var shown = rows.slice().sort(function (a, b) { return place(a) - place(b); });
      for (var at = 1; at < shown.length; at++) {
        var is_wrong = by === "name" ? rows.indexOf(shown[at - 1]) > rows.indexOf(shown[at]) : Math.max(worth(shown[at - 1]), 1) < worth(shown[at]);
        if (is_wrong) { said.push("by " + by + ", row " + at + " stands too low"); break; }
      }
    });
    return said;
  },
  // The page is not wider than the window; what is wider scrolls within itself.
  overflow: function () {
    var width = document.documentElement.clientWidth, said = [];
    if (document.documentElement.scrollWidth > width) { said.push("the page is " + document.documentElement.scrollWidth + " px wide"); }
    document.querySelectorAll("body *").forEach(function (one) {
      var box = one.getBoundingClientRect(), around = one.parentElement;
      while (around !== document.body && getComputedStyle(around).overflowX === "visible") { around = around.parentElement; }
      // What is cut or scrolls within something else does not make the page wider.
      if (!box.width || around !== document.body || one.closest(".skip, .unseen, svg")) { return; }
      if (box.right > width + 1 || box.left < -1) {
        said.push("<" + one.tagName.toLowerCase() + " class=" + one.className + "> reaches from " + box.left.toFixed() + " to " + box.right.toFixed());
      }
    });
    return said.slice(0, 5);
  },
  // What hides its overflow hides nothing but the end of a name, which its dots say.
  cut: function () {
    var said = [];
    document.querySelectorAll("body *").forEach(function (one) {
      var style = getComputedStyle(one);
      if (style.overflowX !== "hidden" || style.textOverflow === "ellipsis" || one.closest("svg, .unseen") || !one.checkVisibility()) { return; }
      if (one.scrollWidth > one.clientWidth + 1) { said.push("<" + one.tagName.toLowerCase() + " class=" + one.className + "> cuts off " + (one.scrollWidth - one.clientWidth) + " px"); }
    });
    return said.slice(0, 5);
  },
  // In tables and in what is bold or a heading no word is broken; a path, an id, a command or a very long name may be.
  words: function () {
    var said = [], range = document.createRange();
    document.querySelectorAll("th, td, h1, h2, h3, .chip, b").forEach(function (cell) {
      if (!cell.checkVisibility()) { return; }
      var walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), node;
      while ((node = walker.nextNode())) {
        if (node.parentElement.closest("code, pre, i, .mono, .calls, svg")) { continue; }
        var names = node.data.match(/\S{31,}/g) || [];
        var word = /[A-Za-z]{2,24}/g, found;
        while ((found = word.exec(node.data))) {
          // A name that is longer than a narrow line must be broken somewhere.
          if (names.some(function (name) { return name.indexOf(found[0]) >= 0; })) { continue; }
          range.setStart(node, found.index);
          range.setEnd(node, found.index + found[0].length);
          var tops = Array.prototype.map.call(range.getClientRects(), function (box) { return Math.round(box.top); });
          if (tops.some(function (top) { return Math.abs(top - tops[0]) > 3; })) { said.push("broken: " + found[0] + " in " + cell.textContent.slice(0, 60)); }
        }
      }
    });
    return said.slice(0, 5);
  },
  // Yellow is the colour of a warning.
  yellow: function () {
    function hue(colour) {
      var parts = (colour.match(/[\d.]+/g) || []).map(Number), r = parts[0], g = parts[1], b = parts[2];
      if (parts.length < 3 || parts[3] === 0) { return -1; }
      var most = Math.max(r, g, b), span = most - Math.min(r, g, b);
      if (span < 60 || most !== r) { return -1; }
      return 60 * (g - b) / span;
    }
    var said = [];
    document.querySelectorAll("body, body *").forEach(function (one) {
      if (one.closest(".warning, .flame, script") || !one.checkVisibility()) { return; }
      var style = getComputedStyle(one);
      ["color", "backgroundColor", "fill", "stroke", "borderTopColor", "borderLeftColor"].forEach(function (name) {
        var is = hue(style[name]);
        if (is >= 28 && is <= 70) { said.push(name + " " + style[name] + " of <" + one.tagName.toLowerCase() + " class=" + (one.getAttribute("class") || "") + ">"); }
      });
    });
    return said.slice(0, 5);
  },
  // Two labels of a picture do not stand upon one another.
  labels: function () {
    var said = [];
    document.querySelectorAll("svg.plot, .drawn svg").forEach(function (picture) {
      var boxes = Array.prototype.map.call(picture.querySelectorAll(":scope > text"), function (text) {
        var box = text.getBoundingClientRect();
        return { text: text.textContent, left: box.left, right: box.right, top: box.top + 3, bottom: box.bottom - 3 };
      });
      boxes.forEach(function (one, at) {
        boxes.slice(at + 1).forEach(function (other) {
          if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom) {
            said.push("labels overlap: " + one.text + ", " + other.text);
          }
        });
      });
    });
    return said.slice(0, 5);
  },
  // Where things stand.
  places: function () {
    function place(selector) {
      var one = document.querySelector(selector);
      if (!one) { return null; }
      var box = one.getBoundingClientRect();
      return { left: box.left, top: box.top + scrollY, right: box.right, bottom: box.bottom + scrollY };
    }
    return { height: document.documentElement.scrollHeight, finding: place("#profile") || place("#finding-1"), verdict: place(".verdict"), time: place(".time"),
      used: place(".used"), next: place(".todo"), main: place("main") };
  }
})
