/* The page: findings, functions, filters, keys. */
(() => {
  const { byId, make, colour } = ui;
  const FIRST_ROWS = 100, HEAD = 60;
  const root = document.documentElement;
  const store = (value) => {
    // Storage is refused to pages opened from disk in some browsers; the choice then lasts for the visit.
    try {
      if (value === undefined) return localStorage.getItem("ptxaudit-theme");
      localStorage.setItem("ptxaudit-theme", value);
    } catch { /* see above */ }
    return null;
  };
  const saved = store();
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;

  const colourAll = (within) => {
    for (const text of within.querySelectorAll(".excerpt .text, .fix .text, .rule-body .text")) {
      if (!text.dataset.coloured) { colour(text, text.textContent); text.dataset.coloured = "1"; }
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    const data = JSON.parse(byId("data").textContent);
    const cards = data.findings.map((finding) => ({ ...finding, card: byId(finding.id), entry: null, visible: true }));
    const known = new Map(cards.map((item) => [item.id, item]));
    for (const entry of document.querySelectorAll("[data-entry]")) known.get(entry.dataset.entry).entry = entry;

    /* Cards: bodies stay inert templates until opened. */
    const fill = (details) => {
      const template = details.querySelector(":scope > template");
      if (template) template.replaceWith(template.content);
      colourAll(details);
    };
    document.addEventListener("toggle", (event) => {
      if (event.target.matches("details.card, details.rule") && event.target.open) fill(event.target);
    }, true);
    for (const details of document.querySelectorAll("details.card[open]")) fill(details);

    let current = null;
    const select = (item, scroll = true) => {
      if (current) { current.card.classList.remove("current"); current.entry?.classList.remove("current"); }
      current = item;
      fill(item.card);
      item.card.open = true;
      item.card.classList.add("current");
      item.entry?.classList.add("current");
      item.entry?.scrollIntoView({ block: "nearest" });
      if (scroll) item.card.scrollIntoView({ block: "start" });
    };
    const goTo = (id) => {
      const item = known.get(id);
      if (!item) return;
      if (!item.visible) clearFilter();
      if (location.hash.slice(1) !== id) history.replaceState(null, "", "#" + id);
      select(item);
    };
    const openCode = (hash, finding = null) => {
      const [anchor, at, id] = hash.split(":");
      return codeView.open(anchor, { at, finding: finding ?? known.get(id) ?? null });
    };
    const followHash = () => {
      const id = decodeURIComponent(location.hash.slice(1));
      if (id.startsWith("c-")) { openCode(id); return; }
      codeView.leave();
      if (known.has(id)) goTo(id);
      else if (byId(id)?.matches("details")) byId(id).open = true;
    };
    addEventListener("hashchange", followHash);

    const toggleAll = byId("toggle-all");
    const openOrClose = () => {
      const close = cards.some((item) => item.visible && item.card.open);
      for (const item of cards) if (item.visible) item.card.open = !close;
      toggleAll.textContent = close ? "Open all" : "Close all";
    };
    toggleAll?.addEventListener("click", openOrClose);

    /* One filter for findings and functions. */
    const filter = byId("filter"), rule = byId("rule"), verdict = byId("verdict");
    const severities = new Set(["error", "warning", "note"]);
    const hasCode = data.functions.some((item) => item.code);
    const names = data.functions.map((item) => [item.name, item.shown, item.input, item.arch].join(" ").toLowerCase());
    const worth = { error: 1e6, warning: 1e4, note: 100 };
    data.functions.forEach((item, number) => {
      item.search = names[number];
      item.open = item.findings.filter((index) => !cards[index].suppressed);
      item.unknown = new Set([...Object.keys(item.verdicts).filter((key) => item.verdicts[key] === "u"), ...Object.keys(item.reasons)]);
      item.worst = item.open.reduce((sum, index) => sum + worth[cards[index].severity], 0) + item.unknown.size;
      item.label = item.shown.toLowerCase();
    });
    const words = () => filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const clearFilter = () => {
      filter.value = ""; rule.value = "";
      for (const button of document.querySelectorAll(".toggle")) { button.setAttribute("aria-pressed", "true"); severities.add(button.dataset.severity); }
      apply();
    };
    const functionPasses = (item, wanted) => {
      const index = data.rules.indexOf(rule.value);
      if (rule.value && item.verdicts[index] !== "f" && !item.unknown.has(String(index))) return false;
      const found = item.open.length > 0, unknown = item.unknown.size > 0;
      if (verdict.value === "f" && !found) return false;
      if (verdict.value === "u" && !unknown) return false;
      if (verdict.value === "c" && (found || unknown)) return false;
      if (severities.size < 3 && !item.open.some((number) => severities.has(cards[number].severity))) return false;
      return wanted.every((word) => item.search.includes(word)
        || item.findings.some((number) => cards[number].search.includes(word))
        || [...item.unknown].some((key) => data.rules[key].includes(word)));
    };
    const apply = () => {
      const wanted = words();
      let shown = 0, total = 0;
      for (const item of cards) {
        item.visible = severities.has(item.severity) && (!rule.value || item.rule === rule.value) && wanted.every((word) => item.search.includes(word));
        item.card.hidden = !item.visible;
        if (item.entry) item.entry.hidden = !item.visible;
        if (!item.suppressed) { total += 1; shown += item.visible ? 1 : 0; }
      }
      for (const group of document.querySelectorAll("#index > li")) group.hidden = !group.querySelector("li:not([hidden])");
      byId("none-match").hidden = shown > 0 || total === 0;
      limit = FIRST_ROWS;
      matching = data.functions.filter((item) => functionPasses(item, wanted));
      const narrowed = shown < total || matching.length < data.functions.length;
      byId("shown").textContent = narrowed ? `${shown} of ${total} findings, ${matching.length} of ${data.functions.length} functions` : "";
      drawFunctions();
    };
    let pending = 0;
    const shown = (id) => { const box = byId(id).getBoundingClientRect(); return box.bottom > HEAD && box.top < innerHeight; };
    const narrow = () => {
      apply();
      /* What is left is no longer where the reader was. */
      if (!shown("findings") && !shown("functions")) byId(cards.some((item) => item.visible) ? "findings" : "functions").scrollIntoView();
    };
    filter.addEventListener("input", () => { clearTimeout(pending); pending = setTimeout(filter.value.trim() ? narrow : apply, 120); });
    rule.addEventListener("change", apply);
    verdict.addEventListener("change", apply);
    for (const button of document.querySelectorAll(".toggle")) {
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        if (on) severities.add(button.dataset.severity); else severities.delete(button.dataset.severity);
        apply();
      });
    }

    /* Functions: rows are made for what is shown only. */
    const table = byId("function-table"), more = byId("more-functions");
    let matching = data.functions, limit = FIRST_ROWS, sort = "worst", down = true;
    const compare = (one, two) => {
      const first = sort === "name" ? one.label : one[sort], second = sort === "name" ? two.label : two[sort];
      const order = first < second ? -1 : first > second ? 1 : 0;
      return (down ? -order : order) || (one.label < two.label ? -1 : one.label > two.label ? 1 : 0);
    };
    const chips = (item) => {
      const box = make("div", { className: "chips" });
      const counts = new Map();
      for (const number of item.open) {
        const { rule: name, severity } = cards[number];
        const had = counts.get(name);
        counts.set(name, { severity: had ? had.severity : severity, number: (had?.number ?? 0) + 1 });
      }
      for (const [name, { severity, number }] of counts) box.append(make("span", { className: `chip ${severity}`, textContent: number > 1 ? `${name} ×${number}` : name }));
      for (const key of item.unknown) box.append(make("span", { className: "chip unknown", textContent: `${data.rules[key]} ?`, title: item.reasons[key] ?? "" }));
      const clean = Object.values(item.verdicts).filter((code) => code === "c").length;
      if (clean) box.append(make("span", { className: "clean", textContent: `${clean} clean` }));
      if (!box.childNodes.length) box.append(make("span", { className: "muted", textContent: "no rule applies" }));
      return box;
    };
    const WORDS = { f: ["finding", "error"], u: ["unknown", "unknown"], c: ["clean", "clean"], n: ["not applicable", "muted"] };
    const detail = (item) => {
      const cell = make("td", { colSpan: 3 });
      cell.append(make("div", { className: "full", textContent: item.shown === item.name ? item.name : `${item.shown} (${item.name})` }));
      const grid = make("div", { className: "grid" });
      for (const number of item.findings) {
        const finding = cards[number];
        grid.append(make("span", { className: finding.severity, textContent: finding.suppressed ? "suppressed" : finding.severity }),
          make("a", { href: "#" + finding.id, textContent: finding.rule, className: "mono" }));
      }
      const order = "fucn";
      const verdicts = Object.entries(item.verdicts).sort((one, two) => order.indexOf(one[1]) - order.indexOf(two[1]) || one[0] - two[0]);
      const listed = new Set(item.findings.map((number) => cards[number].rule));
      for (const [key, code] of verdicts) {
        if (code === "f" && listed.has(data.rules[key]) && !item.reasons[key]) continue;
        const why = item.reasons[key] ? ": " + item.reasons[key] : "";
        grid.append(make("span", { className: WORDS[code][1], textContent: WORDS[code][0] }), make("span", {}, make("span", { className: "mono", textContent: data.rules[key] }), why));
      }
      for (const [name, value] of item.facts) grid.append(make("span", { className: "muted", textContent: name }), make("span", { textContent: value }));
      cell.append(grid);
      return make("tr", { className: "detail" }, cell);
    };
    const row = (item) => {
      const name = make("button", { type: "button", className: "fname", textContent: item.shown, title: item.shown });
      name.setAttribute("aria-expanded", "false");
      const line = make("tr", { className: "row" },
        make("td", {}, name, make("div", { className: "finput", textContent: item.input.slice(data.folder), title: item.input }), item.code ? make("a", { className: "open-code", href: "#" + item.code, textContent: "Open the code" }) : hasCode ? make("span", { className: "muted", textContent: "code left out", title: "To keep the page small; --kernel makes a page of some functions" }) : ""),
        make("td", {}, make("div", { className: "mono", textContent: item.arch }), make("div", { className: "finput", textContent: item.evidence === "both" ? "ptx, sass" : item.evidence })),
        make("td", {}, chips(item)));
      line.addEventListener("click", (event) => {
        if (event.target.closest("a")) return;
        const next = line.nextElementSibling;
        const isOpen = next?.classList.contains("detail");
        if (isOpen) next.remove(); else line.after(detail(item));
        name.setAttribute("aria-expanded", String(!isOpen));
      });
      return line;
    };
    const drawFunctions = () => {
      const rows = [...matching].sort(compare).slice(0, limit).map(row);
      table.tBodies[0].replaceChildren(...rows);
      if (!rows.length) table.tBodies[0].append(make("tr", {}, make("td", { colSpan: 3, className: "muted", textContent: data.functions.length ? "No function matches the filter." : "No function was audited." })));
      more.hidden = matching.length <= limit;
      more.textContent = `Show all ${matching.length}`;
    };
    more.addEventListener("click", () => { limit = Infinity; drawFunctions(); });
    for (const button of table.querySelectorAll("[data-sort]")) {
      button.addEventListener("click", () => {
        down = sort === button.dataset.sort ? !down : button.dataset.sort === "worst";
        sort = button.dataset.sort;
        for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
        button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
        drawFunctions();
      });
    }

    document.addEventListener("click", (event) => {
      const code = event.target.closest('a[href^="#c-"]');
      if (code) {
        event.preventDefault();
        const finding = known.get(code.dataset.finding ?? code.closest(".card")?.id) ?? null;
        openCode(code.hash.slice(1), finding).then((opened) => {
          if (!opened) code.replaceWith(make("span", { className: "muted", textContent: "its code was left out of this page" }));
        });
        return;
      }
      const wanted = event.target.closest("[data-rule]");
      if (wanted) {
        clearFilter();
        rule.value = wanted.dataset.rule;
        apply();
        byId(cards.some((item) => item.rule === rule.value && !item.suppressed) ? "findings" : "functions").scrollIntoView();
      }
      const ruleLink = event.target.closest('a[href^="#rule-"]');
      if (ruleLink && byId(decodeURIComponent(ruleLink.hash.slice(1)))) byId(decodeURIComponent(ruleLink.hash.slice(1))).open = true;
      const link = event.target.closest(".permalink, [data-entry] a");
      if (link) { event.preventDefault(); goTo(decodeURIComponent(link.hash.slice(1))); }
    });

    const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    const switchTheme = () => { root.dataset.theme = dark() ? "light" : "dark"; store(root.dataset.theme); };
    byId("theme").addEventListener("click", switchTheme);
    const owners = new Map(data.functions.map((item) => [item.code, item]));
    codeView.setUp({ goTo, switchTheme, findingsOf: (anchor) => owners.get(anchor)?.findings.map((number) => cards[number]) ?? [] });

    const move = (by) => {
      const list = cards.filter((item) => item.visible);
      if (!list.length) return;
      const position = list.indexOf(current);
      const next = position < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, position + by));
      goTo(list[next].id);
    };
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || codeView.isOpen()) return;
      if (event.target.matches("input, select, textarea")) {
        if (event.key === "Escape") { if (event.target === filter) { filter.value = ""; apply(); } event.target.blur(); }
        return;
      }
      const action = { j: () => move(1), k: () => move(-1), t: switchTheme, "/": () => { filter.focus(); filter.select(); },
        o: () => current && (current.card.open = !current.card.open), Escape: clearFilter }[event.key];
      if (action) { event.preventDefault(); action(); }
    });

    addEventListener("beforeprint", () => {
      for (const item of cards) if (item.visible) { fill(item.card); item.card.open = true; }
      limit = Infinity;
      drawFunctions();
    });

    apply();
    followHash();
  });
})();
