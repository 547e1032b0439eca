"use strict";
document.querySelectorAll("svg.flame").forEach(function (svg) {
  var width = svg.viewBox.baseVal.width;
  var frames = Array.prototype.map.call(svg.querySelectorAll("g"), function (g) {
    var rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
    return { g: g, rect: rect, text: g.querySelector("text"), title: title, name: title.slice(0, title.lastIndexOf(": ")),
      first: g.querySelector("text") ? g.querySelector("text").textContent : "",
      x: +rect.getAttribute("x"), y: +rect.getAttribute("y"), w: +rect.getAttribute("width") };
  });
  if (!frames.length) { return; }
  var root = frames[0], zoomed = root;
  svg.classList.add("live");
  function label(frame, x, w) {
    var room = Math.floor((w - 6) / 7.3), name = frame.name;
    if (!frame.text) {
      if (room < 3) { return; }
      frame.text = document.createElementNS(svg.namespaceURI, "text");
      frame.text.setAttribute("y", frame.y + 12);
      frame.g.appendChild(frame.text);
    }
    var shown = room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 2) + "..";
    frame.text.textContent = zoomed === root ? frame.first : shown;
    frame.text.setAttribute("x", x + 3);
  }
  function zoom(to) {
    zoomed = to;
    frames.forEach(function (frame) {
      var above = frame.y >= to.y && frame.x <= to.x + 0.3 && frame.x + frame.w >= to.x + to.w - 0.3 && frame !== to;
      var within = frame.y <= to.y && frame.x >= to.x - 0.3 && frame.x + frame.w <= to.x + to.w + 0.3;
      frame.g.classList.toggle("gone", !above && !within);
      frame.g.classList.toggle("dim", above && to !== root);
      if (!above && !within) { return; }
      var x = above ? 0 : (frame.x - to.x) / to.w * width, w = above ? width : frame.w / to.w * width;
      frame.rect.setAttribute("x", x);
      frame.rect.setAttribute("width", Math.max(w, 0.1));
      label(frame, x, w);
    });
  }
  function search(text) {
    var wanted = text.toLowerCase(), hits = [];
    frames.forEach(function (frame) {
      var hit = wanted !== "" && frame.name.toLowerCase().indexOf(wanted) >= 0;
      frame.g.classList.toggle("hit", hit);
      if (hit) { hits.push(frame); }
    });
    if (wanted === "") { return ""; }
    // What stands above a hit is within it.
    var end = -1, sum = 0;
    hits.sort(function (a, b) { return a.x - b.x || b.w - a.w; });
    hits.forEach(function (hit) {
      if (hit.x >= end - 0.3) { sum += hit.w; end = hit.x + hit.w; }
    });
    return hits.length + " frames, " + (100 * sum / root.w).toFixed(1) + "% of the width";
  }
  svg.addEventListener("click", function (event) {
    var g = event.target.closest("g"), frame = frames.filter(function (frame) { return frame.g === g; })[0];
    if (frame) { zoom(frame); }
  });
  if (document.body) {
    var bar = document.createElement("p"), field = document.createElement("input"), said = document.createElement("span"),
      back = document.createElement("button");
    bar.className = "flame-bar";
    field.type = "search";
    field.placeholder = "Search functions";
    field.setAttribute("aria-label", "Search functions in the flame graph");
    said.setAttribute("role", "status");
    back.type = "button";
    back.textContent = "Reset zoom";
    field.addEventListener("input", function () { said.textContent = search(field.value); });
    back.addEventListener("click", function () { zoom(root); });
    [field, back, said].forEach(function (part) { bar.appendChild(part); });
    svg.parentNode.parentNode.insertBefore(bar, svg.parentNode);
    return;
  }
  var height = svg.viewBox.baseVal.height;
  function button(x, text, act) {
    var element = document.createElementNS(svg.namespaceURI, "text");
    element.textContent = text;
    element.setAttribute("class", "button");
    element.setAttribute("style", "pointer-events: auto");
    element.setAttribute("x", x);
    element.setAttribute("y", height + 8);
    element.addEventListener("click", act);
    svg.appendChild(element);
    return element;
  }
  svg.setAttribute("viewBox", "0 0 " + width + " " + (height + 16));
  button(3, "Reset zoom", function () { zoom(root); });
  var said = button(110, "Search", function () {
    var text = window.prompt("Function, or a part of its name", "");
    if (text !== null) { said.textContent = "Search" + (text === "" ? "" : ": " + text + ": " + search(text)); }
  });
});
