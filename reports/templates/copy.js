"use strict";
document.querySelectorAll("button.copy").forEach(function (button) {
  var name = button.textContent;
  function done() {
    button.textContent = "Copied";
    setTimeout(function () { button.textContent = name; }, 2000);
  }
  function byHand(text) {
    var field = document.createElement("textarea");
    field.value = text;
    document.body.appendChild(field);
    field.select();
    if (document.execCommand("copy")) { done(); }
    field.remove();
    button.focus();
  }
  button.hidden = false;
  button.addEventListener("click", function () {
    var text = button.getAttribute("data-text");
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text).then(done, function () { byHand(text); });
    } else {
      byHand(text);
    }
  });
});
