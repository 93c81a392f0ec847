// What is live: the stream of events, countdowns, curves, times in the reader's zone, the switches of colours and zones.
// Pages work without any of it.
"use strict";
(() => {
  const CALM = 1500; // milliseconds between two refreshes at least
  const POLL = 5000; // without a stream
  const find = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Times

  let long, short, hours, seconds, days;
  const showTimesIn = (timeZone) => {
    const form = (options) => new Intl.DateTimeFormat(undefined, { ...options, timeZone });
    long = form({ dateStyle: "medium", timeStyle: "long" });
    short = form({ dateStyle: "medium", timeStyle: "medium" });
    hours = form({ hour: "2-digit", minute: "2-digit" });
    seconds = form({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
    days = form({ day: "numeric", month: "short" });
  };

  const span = (length) => {
    const whole = Math.round(length);
    for (const [size, unit, part, smaller] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      if (whole >= size) {
        const rest = Math.floor((whole % size) / part);
        return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
      }
    }
    return `${whole} s`;
  };

  const when = (at) => {
    const away = (at - Date.now()) / 1000;
    if (Math.abs(away) < 0.5) return "now";
    return away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
  };

  const write = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  const tick = () => {
    for (const element of find("time[data-time=ago]")) write(element, when(Date.parse(element.dateTime)));
    for (const element of find("time[data-time=due]")) {
      const at = Date.parse(element.dateTime);
      element.classList.toggle("soon", at <= Date.now());
      write(element, at > Date.now() ? when(at) : `due ${when(at)}`);
    }
  };

  const localise = (root) => {
    for (const element of find("time[data-time]", root)) {
      const at = new Date(element.dateTime);
      element.title = long.format(at);
      if (element.dataset.time === "at") write(element, short.format(at));
    }
    const clocks = find("[data-clock]", root);
    const times = clocks.map((element) => Number(element.dataset.clock));
    const step = times.length > 1 ? times[1] - times[0] : 3600;
    const form = step >= 86400 ? days : step < 60 ? seconds : hours;
    clocks.forEach((element, place) => write(element, form.format(new Date(times[place] * 1000))));
  };

  // Refreshing: parts of the page are asked for again when something has happened

  let due = null;
  let last = 0;
  const refresh = () => {
    if (due !== null || document.hidden) return;
    due = setTimeout(() => {
      due = null;
      last = Date.now();
      htmx.trigger(document.body, "digestif:changed");
      load();
    }, Math.max(0, last + CALM - Date.now()));
  };

  const pulse = (state, text) => {
    const shown = document.getElementById("pulse");
    if (!shown || shown.dataset.state === state) return;
    shown.dataset.state = state;
    write(shown.querySelector(".text"), text);
  };

  const listen = () => {
    const stream = new EventSource("/live");
    stream.onopen = () => { pulse("on", "Live"); refresh(); };
    stream.onmessage = refresh;
    stream.addEventListener("changed", refresh);
    stream.onerror = () => {
      pulse("lost", "Connecting again");
      if (stream.readyState === EventSource.CLOSED) setTimeout(listen, POLL);
    };
  };

  // Curves

  const colour = (name, figure) => getComputedStyle(figure.querySelector(`.swatch.${name}`)).backgroundColor;
  const faint = (rgb, share) => rgb.replace(/^rgb\(/, "rgba(").replace(/\)$/, `, ${share})`);
  const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

  class Curve {
    constructor(figure) {
      this.figure = figure;
      this.names = figure.dataset.chart.split(" ");
      this.place = document.createElement("div");
      this.captions = find("figcaption > span", figure).map((label) => {
        const value = document.createElement("b");
        label.append(value);
        return value;
      });
      new ResizeObserver(() => this.fit()).observe(figure);
    }

    draw(data = this.data) {
      this.data = data;
      if (!data) return;
      const values = [this.data.at, ...this.names.map((name) => this.data[name])];
      if (this.plot) { this.plot.setData(values); return; }
      const sketch = this.figure.querySelector("svg");
      if (sketch) {
        this.place.setAttribute("role", "img");
        this.place.setAttribute("aria-label", sketch.getAttribute("aria-label"));
        sketch.remove();
      }
      this.figure.prepend(this.place);
      this.plot = new uPlot(this.options(), values, this.place);
    }

    options() {
      const style = getComputedStyle(this.figure);
      const soft = getComputedStyle(this.figure.querySelector("figcaption")).color;
      const grid = faint(soft, 0.14);
      const axis = { stroke: soft, font: `11px ${style.fontFamily}`, ticks: { show: false }, grid: { stroke: grid, width: 1 } };
      return {
        width: this.figure.clientWidth,
        height: Number(this.figure.dataset.height),
        legend: { show: false },
        padding: [6, 14, 0, 0],
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 }, sync: { key: "overview" } },
        scales: { y: { range: (plot, low, high) => [0, Math.max(1, high) * 1.08] } },
        axes: [
          { ...axis, grid: { show: false }, space: 70, size: 26, values: (plot, times) => times.map((at) => hours.format(new Date(at * 1000))) },
          { ...axis, space: 34, size: 44, values: (plot, found) => found.map((value) => compact.format(value)) },
        ],
        series: [{}, ...this.names.map((name) => this.line(name))],
        hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
      };
    }

    line(name) {
      const stroke = colour(name, this.figure);
      return { stroke, fill: faint(stroke, name === "events" ? 0.35 : 0.2), width: 1.5, points: { show: false }, spanGaps: false };
    }

    say(place) {
      this.captions.forEach((value, number) => {
        const found = place == null ? null : this.data[this.names[number]][place];
        const at = place == null ? "" : ` at ${hours.format(new Date(this.data.at[place] * 1000))}`;
        write(value, found == null ? "" : `${Math.round(found * 10) / 10}${number === 0 ? at : ""}`);
      });
    }

    fit() {
      if (this.plot) this.plot.setSize({ width: this.figure.clientWidth, height: Number(this.figure.dataset.height) });
    }

    repaint() {
      if (!this.plot) return;
      this.plot.destroy();
      this.plot = null;
      this.draw();
    }
  }

  const curves = [];

  const load = async () => {
    if (!curves.length) return;
    const answer = await fetch(`/series?range=${curves[0].figure.dataset.range}`).catch(() => null);
    if (!answer || !answer.ok) return;
    const data = await answer.json();
    curves.forEach((curve) => curve.draw(data));
  };

  // The switch of colours

  const switchable = (button) => {
    const root = document.documentElement;
    const order = ["auto", "light", "dark"];
    const show = () => write(button.querySelector(".text"), `Theme: ${root.dataset.theme || "auto"}`);
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(root.dataset.theme || "auto") + 1) % order.length];
      if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
      try { localStorage.setItem("digestif-theme", next); } catch { /* lasts until the page is left */ }
      show();
      curves.forEach((curve) => curve.repaint());
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => curves.forEach((curve) => curve.repaint()));
  };

  // The switch of zones

  const ZONE = "digestif-zone";
  const zones = (select) => {
    const stored = (() => { try { return localStorage.getItem(ZONE); } catch { return null; } })();
    const known = Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [];
    select.append(new Option("Local time", ""), ...[...new Set(["UTC", ...known])].map((name) => new Option(name, name)));
    select.value = stored || "";
    if (select.selectedIndex < 0) select.value = "";
    select.hidden = false;
    showTimesIn(select.value || undefined);
    select.addEventListener("change", () => {
      try { localStorage.setItem(ZONE, select.value); } catch { /* lasts until the page is left */ }
      showTimesIn(select.value || undefined);
      localise(document);
      curves.forEach((curve) => curve.repaint());
    });
  };

  const copyable = (root) => {
    if (!navigator.clipboard) return;
    for (const button of find(".copy[hidden]", root)) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
        write(button, "Copied");
      });
    }
  };

  // What is selected or open stays so when its part of the page is replaced

  const selectable = (root) => {
    for (const label of find("label.all[hidden]", root)) {
      const all = label.querySelector("input");
      label.hidden = false;
      all.addEventListener("change", () => {
        for (const box of all.form.elements) if (box.name === "id") box.checked = all.checked;
      });
    }
  };

  let kept = [];
  const keep = (event) => { kept = find("details[open][id], input[type=checkbox][id]:checked", event.detail.target).map((element) => element.id); };
  const restore = () => {
    for (const element of kept.map((id) => document.getElementById(id))) {
      if (element) element[element.localName === "details" ? "open" : "checked"] = true;
    }
    kept = [];
  };

  // Keys: `/` goes to the search

  const onKey = (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    const search = document.getElementById("search");
    if (search) { search.focus(); search.select(); } else location.assign("/timelines#search");
  };

  const begin = () => {
    const select = document.getElementById("times");
    if (select) zones(select); else showTimesIn(undefined);
    localise(document);
    copyable(document);
    tick();
    setInterval(tick, 1000);
    switchable(document.getElementById("theme"));
    for (const figure of find("[data-chart]")) curves.push(new Curve(figure));
    load();
    document.addEventListener("keydown", onKey);
    if (location.hash === "#search") document.getElementById("search")?.focus();
    selectable(document);
    document.addEventListener("htmx:beforeSwap", keep);
    document.addEventListener("htmx:afterSwap", () => { restore(); localise(document); copyable(document); selectable(document); tick(); });
    if (!document.getElementById("live")) return; // nothing on this page is refreshed
    document.getElementById("pulse").hidden = false;
    document.addEventListener("visibilitychange", refresh);
    listen();
  };

  begin();
})();
