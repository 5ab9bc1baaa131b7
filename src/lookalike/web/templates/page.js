/* What the page does beyond plain forms. Everything works without it: forms have buttons, progress refreshes. */
(function () {
  "use strict";

  // Forms that save themselves: the server answers with the page, whose live parts replace those shown.
  var form = document.querySelector("form[data-autosave]");
  var saved = document.getElementById("saved");
  var running = null, again = false, timer = null;

  function say(name) { if (saved) { saved.textContent = saved.getAttribute(name) || ""; } }

  function refresh(text) {
    var fresh = new DOMParser().parseFromString(text, "text/html");
    document.querySelectorAll("[data-live]").forEach(function (part) {
      var other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML) { part.replaceChildren.apply(part, Array.from(other.childNodes)); }
    });
  }

  function save() {
    if (running) { again = true; return; }
    say("data-not");
    // form.action would be its buttons, which have that name.
    running = fetch(form.getAttribute("action") || window.location.pathname, { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin" })
      .then(function (answer) {
        if (answer.status === 409) { window.location.reload(); return null; }
        return answer.ok ? answer.text() : Promise.reject(new Error("not saved"));
      })
      .then(function (text) { if (text !== null) { refresh(text); say("data-saved"); } })
      .catch(function () { say("data-not"); })
      .finally(function () { running = null; if (again) { again = false; save(); } });
  }

  function soon(wait) { say("data-not"); window.clearTimeout(timer); timer = window.setTimeout(save, wait); }

  if (form && window.fetch && window.DOMParser) {
    form.addEventListener("change", function (event) { if (event.target.name || event.target.id === "slider") { soon(0); } });
    form.addEventListener("input", function (event) {
      if (event.target.name ? event.target.name !== "rules" : event.target.id === "slider") { soon(600); }
    });
    form.addEventListener("submit", function (event) {
      window.clearTimeout(timer);
      again = false;
      if (running) {
        event.preventDefault();
        running.finally(function () { form.requestSubmit(event.submitter || undefined); });
      }
    });
  }

  // Epsilon on a logarithmic scale.
  var slider = document.getElementById("slider"), epsilon = document.getElementById("epsilon");
  if (slider && epsilon) {
    slider.hidden = false;
    var words = function () { slider.setAttribute("aria-valuetext", "epsilon " + epsilon.value); };
    var follow = function () {
      var value = Math.log10(parseFloat(epsilon.value));
      if (isFinite(value)) { slider.value = value; }
      words();
    };
    slider.addEventListener("input", function () {
      epsilon.value = String(Number(Math.pow(10, parseFloat(slider.value)).toPrecision(2)));
      words();
    });
    epsilon.addEventListener("input", follow);
    follow();
  }

  // Progress as it happens.
  var going = document.querySelector("[data-events]");
  if (going && window.EventSource) {
    var source = new EventSource(going.getAttribute("data-events"));
    var shown = "";
    source.onmessage = function (event) {
      var said = JSON.parse(event.data);
      if (said.ended) { source.close(); window.location.reload(); return; }
      document.getElementById("bar").value = said.fraction;
      document.getElementById("clock").textContent = said.clock;
      if (said.message && said.message !== shown) { shown = said.message; document.getElementById("message").textContent = shown; }
    };
    source.onerror = function () { source.close(); window.setTimeout(function () { window.location.reload(); }, 2000); };
  }

  // Find a column.
  var box = document.getElementById("search"), tools = document.getElementById("tools");
  var columns = document.querySelectorAll("fieldset.column");
  if (box && tools && columns.length > 8) {
    tools.hidden = false;
    box.addEventListener("input", function () {
      var wanted = box.value.trim().toLowerCase();
      columns.forEach(function (one) { one.hidden = one.dataset.name.toLowerCase().indexOf(wanted) < 0; });
    });
  }

  // A form that starts something is sent once.
  document.querySelectorAll("form[data-once]").forEach(function (one) {
    one.addEventListener("submit", function () {
      one.querySelectorAll("button").forEach(function (button) {
        window.setTimeout(function () {
          button.disabled = true;
          if (button.dataset.busy) { button.textContent = button.dataset.busy; }
        }, 0);
      });
    });
  });
  window.addEventListener("pageshow", function (event) { if (event.persisted) { window.location.reload(); } });

  // A report is as high as its contents.
  document.querySelectorAll("iframe.report").forEach(function (frame) {
    frame.addEventListener("load", function () {
      try {
        var height = frame.contentDocument.documentElement.scrollHeight;
        frame.style.height = Math.min(height + 4, 30000) + "px";
      } catch (error) { return; }
    });
  });
})();
