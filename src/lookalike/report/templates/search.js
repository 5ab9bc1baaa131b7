(function () {
  "use strict";
  var box = document.getElementById("search");
  if (!box) { return; }
  var cards = Array.prototype.slice.call(document.querySelectorAll("details.column"));
  var none = document.getElementById("none-found");
  document.getElementById("tools").hidden = false;
  box.addEventListener("input", function () {
    var wanted = box.value.trim().toLowerCase(), shown = 0;
    cards.forEach(function (card) {
      var fits = card.dataset.name.toLowerCase().indexOf(wanted) >= 0;
      card.hidden = !fits;
      if (fits) { shown += 1; }
      if (fits && wanted) { card.open = true; }
    });
    none.hidden = shown > 0;
  });
  document.getElementById("open-all").addEventListener("click", function () {
    cards.forEach(function (card) { card.open = true; });
  });
  document.getElementById("close-all").addEventListener("click", function () {
    cards.forEach(function (card) { card.open = false; });
  });
  window.addEventListener("beforeprint", function () {
    cards.forEach(function (card) { card.open = true; });
  });
})();
