/* A function's code: PTX and SASS beside each other, its graph, its source. Read when it is opened. */
const codeView = (() => {
  const { byId, make, draw, count, colour } = ui;
  const LINE = 18, OVERSCAN = 24, KEPT = 4, SHOWN_PAIRS = 6, COLOURS = 8, LANE = 4;
  /* Lines that say nothing beside the source and the opened instruction: line information, blanks, brackets of
     inline assembly. */
  const NOTES = /^\s*(?:\.loc\b.*|\.pragma\b.*|\/\/ (?:begin|end) inline asm|[{}]|\$L__(?:tmp|func_(?:begin|end))\d*:)?\s*$/;
  const LETTERS = { ptx: "p", sass: "s" };
  const other = { ptx: "sass", sass: "ptx" };
  const loaded = new Map();
  let context = null, model = null, dialog = null;

  /* Reading a block: base64 of compressed JSON. */
  const bytesOf = (text) => Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const load = async (anchor) => {
    if (loaded.has(anchor)) return loaded.get(anchor);
    const block = byId("data-" + anchor);
    if (!block) return null;
    const stream = new Blob([bytesOf(block.textContent.trim())]).stream().pipeThrough(new DecompressionStream("gzip"));
    const code = JSON.parse(await new Response(stream).text());
    loaded.set(anchor, code);
    if (loaded.size > KEPT) loaded.delete(loaded.keys().next().value);
    return code;
  };

  /* One language of the function, indexed. */
  const index = (text) => {
    const side = { ...text, instructionAt: new Int32Array(text.lines.length).fill(-1), blockAt: new Int32Array(text.lines.length).fill(-1),
      blockOf: new Int32Array(text.lineOf.length), depth: text.blocks.map(() => 0), kind: text.blocks.map(() => ""), marks: new Map(), places: new Map() };
    text.lineOf.forEach((line, instruction) => { side.instructionAt[line] = instruction; });
    text.blocks.forEach(([, start, end], block) => side.blockOf.fill(block, start, end));
    /* Labels and comments stand before what they are about. */
    for (let line = text.lines.length - 1, block = -1; line >= 0; line--) {
      if (side.instructionAt[line] >= 0) block = side.blockOf[side.instructionAt[line]];
      side.blockAt[line] = block;
    }
    for (const [, blocks, depth, polls, hot] of text.loops) {
      for (const block of blocks) {
        side.depth[block] = Math.max(side.depth[block], depth);
        const kind = polls ? "polls" : hot ? "hot" : "loop";
        if (!side.kind[block] || depth === side.depth[block]) side.kind[block] = kind;
      }
    }
    const position = (instruction) => (text.offsets.length ? text.offsets[instruction] : text.first + text.lineOf[instruction]);
    text.lineOf.forEach((line, instruction) => side.places.set(position(instruction), line));
    if (!text.offsets.length) text.lines.forEach((_, line) => side.places.set(text.first + line, line));
    side.position = position;
    side.essential = text.lines.map((line, number) => side.instructionAt[number] >= 0 || number === 0 || number === text.lines.length - 1 || !NOTES.test(line));
    side.label = (line) => {
      const instruction = side.instructionAt[line];
      if (!text.offsets.length) return String(text.first + line);
      return instruction < 0 ? "" : text.offsets[instruction].toString(16).padStart(4, "0");
    };
    return side;
  };
  const indexed = (code) => {
    const sides = Object.fromEntries(code.texts.map((text) => [text.language, index(text)]));
    const made = { code, sides, sassOf: new Map(), telling: new Set(code.pairs?.telling ?? []), roles: new Map(), only: null, finding: null, at: null, over: null };
    code.pairs?.ptxOf.forEach((ptx, sass) => {
      if (ptx >= 0) made.sassOf.set(ptx, [...(made.sassOf.get(ptx) ?? []), sass]);
    });
    for (const role of code.roles) {
      const had = made.roles.get(role.name) ?? { name: role.name, ctas: [], does: role.does, blocks: { ptx: new Set(), sass: new Set() }, number: made.roles.size };
      had.ctas.push(role.cta);
      for (const [language, blocks] of Object.entries(role.blocks)) for (const block of blocks) had.blocks[language].add(block);
      made.roles.set(role.name, had);
    }
    for (const [language, side] of Object.entries(sides)) {
      side.lanes = side.blocks.map((_, block) => lanes([...made.roles.values()], language, block));
    }
    return made;
  };
  const lanes = (roles, language, block) => {
    const parts = roles.map(({ blocks, number }) => `${blocks[language].has(block) ? `var(--role-${number % COLOURS})` : "transparent"} ${number * LANE}px ${number * LANE + LANE - 1}px, transparent ${number * LANE + LANE - 1}px ${(number + 1) * LANE}px`);
    return parts.length ? `linear-gradient(to right, ${parts.join(", ")})` : "";
  };

  /* What belongs to an instruction: in the other language, in the source. */
  const pairsOf = (language, instruction) => {
    const pairs = model.code.pairs;
    if (instruction < 0 || !pairs) return [];
    if (language === "sass") return pairs.ptxOf[instruction] >= 0 ? [pairs.ptxOf[instruction]] : [];
    return model.sassOf.get(instruction) ?? [];
  };
  /* Where nothing is known of an instruction itself: the nearest one in its block that has a pair. */
  const nearestPair = (language, instruction) => {
    if (instruction < 0 || !model.code.pairs) return null;
    const side = model.sides[language];
    const [, start, end] = side.blocks[side.blockOf[instruction]];
    for (let step = 1; step < end - start; step++) {
      for (const candidate of [instruction - step, instruction + step]) {
        if (candidate >= start && candidate < end && pairsOf(language, candidate).length) return pairsOf(language, candidate)[0];
      }
    }
    return null;
  };
  const sourceOf = (language, instruction) => {
    if (instruction < 0) return -1;
    const own = model.sides[language].sources[instruction] ?? -1;
    if (own >= 0) return own;
    for (const pair of pairsOf(language, instruction)) {
      const theirs = model.sides[other[language]].sources[pair] ?? -1;
      if (theirs >= 0) return theirs;
    }
    return -1;
  };
  const place = (name) => {
    const found = /^([ps])([0-9a-f]+)$/.exec(name ?? "");
    if (!found) return null;
    const language = found[1] === "p" ? "ptx" : "sass";
    const line = model.sides[language]?.places.get(parseInt(found[2], found[1] === "p" ? 10 : 16));
    return line === undefined ? null : { language, line };
  };
  const nameOf = ({ language, line }) => {
    const side = model.sides[language], instruction = side.instructionAt[line];
    if (language === "ptx") return "p" + (side.first + line);
    return instruction < 0 ? "" : "s" + side.offsets[instruction].toString(16);
  };

  /* Findings in the margin. */
  const mark = () => {
    for (const side of Object.values(model.sides)) side.marks.clear();
    for (const finding of model.findings) {
      finding.places.forEach(([name, note, primary]) => {
        const found = place(name);
        if (!found) return;
        const marks = model.sides[found.language].marks;
        const kind = primary ? finding.severity : "related";
        const all = marks.get(found.line) ?? [];
        all.push({ finding, note, kind });
        all.sort((one, two) => (one.kind === "related") - (two.kind === "related"));
        marks.set(found.line, all);
      });
    }
    model.steps = new Map();
    (model.finding?.steps ?? []).forEach(([name], number) => {
      const found = place(name);
      if (!found) return;
      const key = `${found.language} ${found.line}`;
      model.steps.set(key, [...(model.steps.get(key) ?? []), number + 1]);
    });
  };

  /* Which lines are shown, and in which row each of them is. */
  let allLines = false;
  const arrange = (side) => {
    side.shown = []; side.rowOf = new Int32Array(side.lines.length);
    side.lines.forEach((_, line) => {
      side.rowOf[line] = side.shown.length;
      if (allLines || side.essential[line]) side.shown.push(line);
    });
  };

  /* Panes: only the lines in sight exist. */
  const panes = {};
  const setUpPane = (language) => {
    const root = byId("pane-" + language);
    const pane = { root, scroll: root.querySelector(".pane-scroll"), space: root.querySelector(".pane-space"), lines: root.querySelector(".code"), ruler: root.querySelector(".ruler"), title: root.querySelector(".pane-title"), facts: root.querySelector(".pane-facts"), drawn: "" };
    panes[language] = pane;
    pane.scroll.addEventListener("scroll", () => drawPane(language), { passive: true });
    pane.lines.addEventListener("click", (event) => {
      const row = event.target.closest(".code-row");
      if (row) select({ language, line: Number(row.dataset.line) });
    });
    /* Not mouseover: lines also move under a resting mouse. */
    pane.lines.addEventListener("mousemove", (event) => {
      const row = event.target.closest(".code-row");
      hover(row ? { language, line: Number(row.dataset.line) } : null);
    });
    pane.lines.addEventListener("mouseleave", () => hover(null));
    pane.ruler.addEventListener("click", (event) => {
      const share = event.offsetY / pane.ruler.clientHeight;
      pane.scroll.scrollTop = share * pane.scroll.scrollHeight - pane.scroll.clientHeight / 2;
    });
  };
  const costText = (cost) => (cost.cycles ? cost.cycles[2].toLocaleString("en") : `#${cost.rank}`);
  /* The margin is as wide as what stands in it. */
  const setMargin = (side, root) => {
    const longest = (texts) => texts.reduce((most, text) => Math.max(most, text.length), 0);
    side.hasCosts = Object.keys(side.costs).length > 0;
    root.style.setProperty("--cost", `${7 * longest(Object.values(side.costs).map(costText)) + 6}px`);
    root.style.setProperty("--number", `${7.5 * longest(side.lines.map((_, line) => side.label(line))) + 16}px`);
  };
  const drawPane = (language, again = false) => {
    const side = model?.sides[language], pane = panes[language];
    if (!side) return;
    const first = Math.max(0, Math.floor(pane.scroll.scrollTop / LINE) - OVERSCAN);
    const last = Math.min(side.shown.length, Math.ceil((pane.scroll.scrollTop + pane.scroll.clientHeight) / LINE) + OVERSCAN);
    if (!again && pane.drawn === `${first} ${last}`) return;
    pane.drawn = `${first} ${last}`;
    pane.lines.style.top = first * LINE + "px";
    const rows = [];
    for (let number = first; number < last; number++) rows.push(row(language, side, side.shown[number]));
    pane.lines.replaceChildren(...rows);
    paint();
  };
  const row = (language, side, line) => {
    const instruction = side.instructionAt[line], block = side.blockAt[line];
    const marks = side.marks.get(line), steps = model.steps.get(`${language} ${line}`);
    const made = make("div", { className: "code-row" });
    made.dataset.line = line;
    if (instruction < 0) made.classList.add("dim");
    else if (side.sync[instruction]) made.classList.add("sync");
    if (instruction >= 0 && side.blocks[block][1] === instruction) made.classList.add("starts");
    if (marks) {
      const strong = marks.find((one) => one.finding === model.finding) ?? marks[0];
      made.classList.add("marked", strong.kind);
      made.title = marks.map((one) => `${one.finding.rule}: ${one.note}`).join("\n");
    }
    if (model.only && block >= 0 && !model.only.blocks[language].has(block)) made.classList.add("faint");
    const sign = make("span", { className: "sign", textContent: steps ? steps.join(",") : marks ? "●" : "" });
    if (steps) sign.classList.add("step");
    const lane = make("span", { className: "lanes" });
    if (block >= 0 && side.lanes[block]) lane.style.backgroundImage = side.lanes[block];
    const loop = make("span", { className: `bar ${block >= 0 ? side.kind[block] : ""}` });
    if (block >= 0 && side.depth[block]) loop.textContent = side.depth[block] > 1 && made.classList.contains("starts") ? side.depth[block] : "";
    made.append(sign, lane, loop);
    if (side.hasCosts) {
      const cost = instruction >= 0 ? side.costs[instruction] : null;
      const cell = make("span", { className: "cost-cell", textContent: cost ? costText(cost) : "" });
      if (cost) {
        cell.classList.add(cost.cycles?.[2] >= 200 ? "high" : "low");
        cell.title = `${range(cost.cycles)} ${cost.frequency}. ${cost.summary}`;
      }
      made.append(cell);
    }
    const text = make("span", { className: "text" });
    colour(text, side.lines[line].replaceAll("\t", "    "));
    made.append(make("span", { className: "no", textContent: side.label(line) }), text);
    return made;
  };
  const range = (cycles) => !cycles ? "not measured" : `${cycles[0] === cycles[1] ? cycles[0] : `${cycles[0]}–${cycles[1]}`} cycles`;
  const PARTS = { wait: "waits", barrier: "barriers", arrive: "arrivals", fence: "fences", flush: "flushes", invalidate: "invalidates" };
  /* What cycles go to, the most first, in per cent: as words, and as a bar. */
  const spending = (spent, operations) => {
    const counts = Object.entries(operations).map(([name, number]) => `${number} × ${name}`).join(", ");
    if (!spent) return [make("span", { className: "muted", textContent: counts })];
    const bar = make("span", { className: "spending", title: counts });
    for (const [part, share] of spent.shares) { const piece = make("i", { className: part }); piece.style.width = `${share}%`; bar.append(piece); }
    const words = spent.shares.map(([part, share]) => `${PARTS[part]} ${share} %`).join(", ");
    return [make("b", { textContent: `${spent.cycles[2].toLocaleString("en")} cycles` }), " ", bar, " ", make("span", { className: "muted", textContent: words })];
  };
  /* The budget of the language that runs: what a warp spends outside loops, and in an iteration of each. */
  const showBudget = () => {
    const box = byId("code-budget"), language = model.sides.sass ? "sass" : "ptx", side = model.sides[language], budget = side.budget;
    box.hidden = !budget || !(budget.loops.length || Object.keys(budget.once[1]).length);
    if (box.hidden) return;
    const known = budget.measured ? `measured on an ${budget.device} (${budget.measured})` : "not measured on this architecture";
    const list = make("dl");
    for (const [header, spent, operations] of budget.loops) {
      const line = side.lineOf[side.blocks[header][1]];
      const jump = make("button", { type: "button", className: "link", onclick: () => select({ language, line }, { centre: true }) }, `loop at ${side.blocks[header][0]}`);
      list.append(make("dt", {}, jump), make("dd", {}, ...spending(spent, operations), ...(spent ? [" an iteration"] : [])));
    }
    if (Object.keys(budget.once[1]).length) list.append(make("dt", { textContent: budget.once[2] ? `outside loops, ${budget.once[2]}` : "outside loops" }), make("dd", {}, ...spending(...budget.once)));
    box.replaceChildren(make("summary", { textContent: `Synchronisation budget, ${known}` }), list, make("p", { className: "muted", textContent: `Rests on: ${budget.assumptions.join("; ")}.` }), make("p", { className: "muted", textContent: `${budget.legend.join(". ")}.` }));
  };
  const reveal = (language, line, centre = false) => {
    const pane = panes[language], top = model.sides[language].rowOf[line] * LINE;
    const inside = top >= pane.scroll.scrollTop + LINE && top + LINE <= pane.scroll.scrollTop + pane.scroll.clientHeight - 2 * LINE;
    if (!inside || centre) pane.scroll.scrollTop = Math.max(0, top - pane.scroll.clientHeight / 3);
    drawPane(language);
  };

  /* Linked highlighting. */
  const linked = (at) => {
    const lines = { ptx: new Set(), sass: new Set(), weak: new Set() };
    if (!at) return lines;
    const side = model.sides[at.language], instruction = side.instructionAt[at.line];
    lines[at.language].add(at.line);
    const theirs = model.sides[other[at.language]];
    if (!theirs) return lines;
    for (const pair of pairsOf(at.language, instruction)) lines[other[at.language]].add(theirs.lineOf[pair]);
    if (at.language === "sass") {
      /* The siblings: what else became of the same PTX instruction. */
      for (const pair of pairsOf("sass", instruction)) for (const sibling of model.sassOf.get(pair) ?? []) if (sibling !== instruction) lines.weak.add(side.lineOf[sibling]);
    }
    return lines;
  };
  const paint = () => {
    const at = linked(model.at), over = linked(model.over);
    for (const [language, pane] of Object.entries(panes)) {
      for (const element of pane.lines.children) {
        const line = Number(element.dataset.line);
        const selected = model.at?.language === language && model.at.line === line;
        element.classList.toggle("at", selected);
        element.classList.toggle("pair", !selected && at[language].has(line));
        element.classList.toggle("sibling", language === "sass" && at.weak.has(line));
        element.classList.toggle("over", over[language].has(line));
      }
    }
  };
  const hover = (at) => {
    if (at?.language === model.over?.language && at?.line === model.over?.line) return;
    model.over = at;
    paint();
    graphHover();
    if (at) describe(at); else if (model.at) describe(model.at);
  };
  /* The line of the other language that goes with one. */
  const pairedLine = (at) => {
    const theirs = model.sides[other[at.language]], instruction = model.sides[at.language].instructionAt[at.line];
    if (!theirs) return null;
    const pairs = pairsOf(at.language, instruction);
    const best = pairs.find((pair) => at.language === "ptx" && model.telling.has(pair)) ?? pairs[0] ?? nearestPair(at.language, instruction);
    return best === undefined || best === null ? null : theirs.lineOf[best];
  };
  const select = (at, options = {}) => {
    model.at = at;
    model.active = at.language;
    reveal(at.language, at.line, options.centre);
    const paired = pairedLine(at);
    if (paired !== null) reveal(other[at.language], paired, options.centre);
    for (const [language, pane] of Object.entries(panes)) pane.root.classList.toggle("active", language === at.language);
    paint();
    describe(at);
    drawRulers();
    graphSelect();
    const name = nameOf(at);
    history.replaceState(null, "", "#" + [model.anchor, ...(name ? [name] : []), ...(name && model.finding ? [model.finding.id] : [])].join(":"));
  };

  /* What is known of a line. */
  const describe = (at) => {
    const side = model.sides[at.language], instruction = side.instructionAt[at.line], block = side.blockAt[at.line];
    const facts = byId("code-facts"), source = byId("code-source");
    const items = [];
    const item = (name, ...content) => items.push(make("dt", { textContent: name }), make("dd", {}, ...content));
    const where = at.language === "ptx" ? `PTX line ${side.first + at.line}` : `SASS offset 0x${side.label(at.line)}`;
    const text = make("code");
    colour(text, side.lines[at.line].trim());
    item(where, text);
    if (instruction >= 0) {
      if (side.sync[instruction]) item("synchronises", side.sync[instruction]);
      const theirs = model.sides[other[at.language]];
      if (theirs) item(at.language === "ptx" ? "assembled to" : "comes from", ...pairText(at.language, instruction, theirs));
      const cost = side.costs[instruction];
      if (cost) item("costs", make("b", { textContent: range(cost.cycles) }), ` ${cost.frequency}. `, make("span", { className: "muted", textContent: cost.summary }));
    }
    for (const { finding, note, kind } of side.marks.get(at.line) ?? []) {
      item(kind === "related" ? "part of" : finding.severity, link(finding), " ", note);
      items.at(-2).className = kind === "related" ? "" : finding.severity;
    }
    if (block >= 0) {
      const [name] = side.blocks[block];
      const own = side.budget?.loops.filter(([header]) => side.loops.some(([head, blocks]) => head === header && blocks.includes(block))) ?? [];
      if (own.length && own.at(-1)[1]) item("an iteration spends", ...spending(own.at(-1)[1], own.at(-1)[2]));
      const loop = side.depth[block] ? `, loop depth ${side.depth[block]}${{ hot: ", hot", polls: ", polling", loop: "" }[side.kind[block]]}` : "";
      item("block", name + loop);
      const executing = [...model.roles.values()].filter((role) => role.blocks[at.language].has(block));
      if (model.roles.size) item("executed by", ...(executing.length ? executing.map(roleText) : ["no role that was followed to its end"]));
    }
    facts.replaceChildren(...items);
    showSource(source, sourceOf(at.language, instruction));
  };
  const pairText = (language, instruction, theirs) => {
    const pairs = pairsOf(language, instruction);
    if (!pairs.length) return [make("span", { className: "muted", textContent: language === "ptx" ? "no instruction that is known" : "PTX that is not known" })];
    const ordered = [...pairs].sort((one, two) => model.telling.has(two) - model.telling.has(one));
    const shown = ordered.slice(0, SHOWN_PAIRS).map((pair) => {
      const line = theirs.lineOf[pair];
      const name = language === "ptx" ? theirs.label(line) : `line ${theirs.first + line}`;
      const jump = make("button", { type: "button", className: "link jump", onclick: () => select({ language: other[language], line }) }, name + " ");
      jump.append(make("code", { textContent: theirs.lines[line].trim().split(/\s+/).filter((word) => !word.startsWith("@"))[0]?.replace(/;$/, "") ?? "" }));
      return jump;
    });
    return pairs.length > SHOWN_PAIRS ? [...shown, `and ${pairs.length - SHOWN_PAIRS} more`] : shown;
  };
  const roleText = (role) => make("span", { className: "role-name" }, swatch(role), role.name + (model.ctas > 1 && role.ctas.length < model.ctas ? ` of CTA ${role.ctas.join(", ")}` : ""));
  const swatch = (role) => { const made = make("i", { className: "swatch" }); made.style.background = `var(--role-${role.number % COLOURS})`; return made; };
  const link = (finding) => make("a", { href: "#" + finding.id, textContent: finding.rule, className: "mono", onclick: (event) => { event.preventDefault(); leave(); context.goTo(finding.id); } });
  const showSource = (box, number) => {
    if (number < 0) { box.replaceChildren(make("p", { className: "muted", textContent: model.code.sources.length ? "No line of the source is named here." : "The code names no source." })); return; }
    const [file, line, caller] = model.code.sources[number];
    const parts = [make("p", { className: "where" }, make("b", { textContent: shortFile(file) + ":" + line }), file === shortFile(file) ? "" : ` ${file}`)];
    parts[0].title = file;
    const texts = model.code.sourceTexts[file];
    if (texts) {
      const pre = make("pre", { className: "code" });
      const reach = caller >= 0 ? 2 : 3;
      for (let at = line - reach; at <= line + reach; at++) {
        if (texts[at] === undefined) continue;
        pre.append(make("span", { className: at === line ? "line related" : "line" }, make("span", { className: "no", textContent: at }), make("span", { className: "text", textContent: texts[at] })));
      }
      parts.push(pre);
    } else parts.push(make("p", { className: "muted", textContent: "The file could not be read where the report was made." }));
    for (let at = caller; at >= 0; at = model.code.sources[at][2]) {
      const [from, row] = model.code.sources[at];
      parts.push(make("p", { className: "muted", textContent: `inlined at ${shortFile(from)}:${row}${model.code.sourceTexts[from]?.[row] ? "  " + model.code.sourceTexts[from][row].trim() : ""}` }));
    }
    box.replaceChildren(...parts);
  };
  const shortFile = (file) => file.split(/[\/\\]/).at(-1);

  /* The rulers: where findings, hot loops and the linked lines are in the whole. */
  const drawRulers = () => {
    const at = linked(model.at);
    for (const [language, side] of Object.entries(model.sides)) {
      const total = side.shown.length, signs = [];
      const sign = (kind, line, last = -1) => {
        const made = make("i", { className: kind });
        made.style.top = (100 * side.rowOf[line]) / total + "%";
        if (last >= 0) made.style.height = (100 * (side.rowOf[last] - side.rowOf[line] + 1)) / total + "%";
        signs.push(made);
      };
      for (const [, blocks, , , hot] of side.loops) {
        if (!hot) continue;
        for (const block of blocks) {
          const [, start, end] = side.blocks[block];
          if (end > start) sign("hot", side.lineOf[start], side.lineOf[end - 1]);
        }
      }
      for (const line of [...at[language]].slice(0, 200)) sign("linked", line);
      for (const [line, marks] of side.marks) sign(marks[0].kind, line);
      panes[language].ruler.replaceChildren(...signs);
    }
  };

  /* The graph. */
  const graph = { language: "ptx", scale: 1, boxes: [] };
  const setUpGraph = () => {
    graph.root = byId("graph"); graph.scroll = byId("graph-scroll"); graph.legend = byId("graph-legend");
    byId("graph-fit").addEventListener("click", fit);
    byId("graph-in").addEventListener("click", () => zoom(graph.scale * 1.3));
    byId("graph-out").addEventListener("click", () => zoom(graph.scale / 1.3));
    for (const button of graph.root.querySelectorAll("[data-language]")) button.addEventListener("click", () => { drawGraph(button.dataset.language); graphSelect(true); });
    graph.scroll.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(graph.scale * (event.deltaY < 0 ? 1.15 : 1 / 1.15), event.offsetX, event.offsetY);
    }, { passive: false });
    graph.scroll.addEventListener("click", (event) => {
      const box = event.target.closest("[data-block]");
      if (!box || graph.dragged) return;
      const side = model.sides[graph.language];
      select({ language: graph.language, line: side.lineOf[side.blocks[Number(box.dataset.block)][1]] }, { centre: true });
    });
    let from = null;
    graph.scroll.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType !== "mouse" || event.offsetX > graph.scroll.clientWidth || event.offsetY > graph.scroll.clientHeight) return;
      from = { x: event.clientX, y: event.clientY, left: graph.scroll.scrollLeft, top: graph.scroll.scrollTop };
      graph.dragged = false;
    });
    addEventListener("pointermove", (event) => {
      if (!from) return;
      if (Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y) > 4) graph.dragged = true;
      graph.scroll.scrollLeft = from.left - (event.clientX - from.x);
      graph.scroll.scrollTop = from.top - (event.clientY - from.y);
    });
    addEventListener("pointerup", () => { from = null; });
  };
  const drawGraph = (language) => {
    graph.language = model.sides[language] ? language : Object.keys(model.sides)[0];
    const side = model.sides[graph.language], picture = side.picture;
    for (const button of graph.root.querySelectorAll("[data-language]")) {
      button.hidden = !model.sides[button.dataset.language];
      button.setAttribute("aria-pressed", String(button.dataset.language === graph.language));
    }
    graph.boxes = []; graph.svg = null;
    if (!picture) {
      graph.scroll.replaceChildren(make("p", { className: "empty", textContent: `${count(side.blocks.length, "block")}: too many or too tangled for a picture.` }));
      graph.legend.textContent = "";
      return;
    }
    const way = pathOf(side);
    const svg = draw("svg", { viewBox: `0 0 ${picture.width} ${picture.height}`, class: "flow", role: "img", "aria-label": `Control flow of ${count(side.blocks.length, "block")}` });
    const tip = (id) => draw("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, draw("path", { d: "M0,0 L8,4 L0,8 z", class: "tip" }));
    svg.append(draw("defs", {}, tip("flow-tip"), tip("flow-tip-path"), tip("flow-tip-back")));
    svg.querySelector("#flow-tip-path path").classList.add("path");
    svg.querySelector("#flow-tip-back path").classList.add("back");
    const late = [];
    for (const [source, target, points] of picture.edges) {
      const onPath = way.edges.has(`${source} ${target}`);
      const back = isBack(side, source, target);
      const kind = onPath ? "path" : back ? "back" : target === source + 1 ? "on" : "taken";
      let data = "";
      for (let at = 0; at < points.length; at += 2) data += `${at ? "L" : "M"}${points[at]},${points[at + 1]}`;
      const line = draw("path", { d: data, class: `edge ${kind}`, "marker-end": `url(#flow-tip${onPath ? "-path" : back ? "-back" : ""})` });
      line.append(draw("title", {}, `${side.blocks[source][0]} → ${side.blocks[target][0]}`));
      if (onPath) late.push(line); else svg.append(line);
    }
    svg.append(...late);
    picture.boxes.forEach(([x, y, width, height, lines], block) => {
      const box = draw("g", { class: `block ${side.kind[block]}`, "data-block": block, transform: `translate(${x},${y})` }, draw("rect", { width, height, rx: 4 }));
      const marked = markOf(side, block);
      if (marked) box.classList.add("marked", marked);
      if (way.blocks.has(block)) box.classList.add("path");
      if (model.only && !model.only.blocks[graph.language].has(block)) box.classList.add("faint");
      lines.forEach((line, number) => box.append(draw("text", { x: 8, y: 15 + 15 * number, class: number === 0 ? "name" : number === 1 ? "size" : "kind" }, line)));
      const steps = way.steps.get(block);
      if (steps) {
        const label = steps.join(","), wide = 10 + 7 * label.length;
        box.append(draw("rect", { x: width - wide / 2, y: -9, width: wide, height: 18, rx: 9, class: "step-badge" }), draw("text", { x: width, y: 4, "text-anchor": "middle", class: "step-badge" }, label));
      }
      box.append(draw("title", {}, `${side.blocks[block][0]}${side.depth[block] ? `, loop depth ${side.depth[block]}` : ""}`));
      svg.append(box);
      graph.boxes.push(box);
    });
    graph.svg = svg; graph.width = picture.width; graph.height = picture.height;
    graph.scroll.replaceChildren(svg);
    zoom(graph.scale);
    const hot = side.kind.includes("hot"), polls = side.kind.includes("polls");
    const legend = [];
    const entry = (kind, text) => legend.push(make("span", {}, make("i", { className: "key " + kind }), text));
    if (hot) entry("hot", "hot loop");
    if (side.kind.includes("loop")) entry("loop", "outer loop");
    if (polls) entry("polls", "polling loop");
    if (way.blocks.size) entry("path", model.finding.path.length ? "path of the finding" : "steps of the finding, a way between those of one role");
    graph.legend.replaceChildren(...legend);
  };
  const isBack = (side, source, target) => side.loops.some(([header, blocks]) => header === target && blocks.includes(source));
  const markOf = (side, block) => {
    const [, start, end] = side.blocks[block];
    let worst = "";
    for (const [line, marks] of side.marks) {
      const instruction = side.instructionAt[line];
      if (instruction < start || instruction >= end) continue;
      for (const { kind, finding } of marks) if ((!model.finding || finding === model.finding) && (!worst || worst === "related")) worst = kind;
    }
    return worst;
  };
  /* What the finding in view goes through: its path, and the steps of its schedule with a way between those
     of one role, through blocks that the role executes. */
  const pathOf = (side) => {
    const way = { blocks: new Set(), edges: new Set(), steps: new Map() };
    if (!model.finding) return way;
    const names = new Map(side.blocks.map(([name], block) => [name, block]));
    const path = model.finding.path.map((name) => names.get(name)).filter((block) => block !== undefined);
    const join = (blocks) => blocks.forEach((block, at) => { way.blocks.add(block); if (at) way.edges.add(`${blocks[at - 1]} ${block}`); });
    join(path);
    const last = new Map();
    model.finding.steps.forEach(([name, role], number) => {
      const block = blockOfPlace(side, name);
      if (block < 0) return;
      way.steps.set(block, [...(way.steps.get(block) ?? []), number + 1]);
      way.blocks.add(block);
      if (!path.length && last.has(role)) join(wayBetween(side, last.get(role), block));
      last.set(role, block);
    });
    return way;
  };
  const blockOfPlace = (side, name) => {
    const found = place(name);
    if (!found) return -1;
    const own = model.sides[found.language], instruction = own.instructionAt[found.line];
    if (instruction < 0) return -1;
    if (own === side) return side.blockOf[instruction];
    const pairs = pairsOf(found.language, instruction);
    const best = pairs.find((pair) => model.telling.has(pair)) ?? pairs[0];
    return best === undefined ? -1 : side.blockOf[best];
  };
  const wayBetween = (side, start, goal) => {
    if (start === goal) return [goal];
    const from = new Map([[start, -1]]);
    for (let queue = [start]; queue.length; ) {
      const next = [];
      for (const block of queue) for (const successor of side.blocks[block][3]) {
        if (from.has(successor)) continue;
        from.set(successor, block);
        if (successor === goal) {
          const found = [goal];
          while (found[0] !== start) found.unshift(from.get(found[0]));
          return found;
        }
        next.push(successor);
      }
      queue = next;
    }
    return [goal];
  };
  const zoom = (scale, x = graph.scroll.clientWidth / 2, y = graph.scroll.clientHeight / 2) => {
    if (!graph.svg) return;
    const next = Math.min(2, Math.max(0.05, scale)), ratio = next / graph.scale;
    const left = (graph.scroll.scrollLeft + x) * ratio - x, top = (graph.scroll.scrollTop + y) * ratio - y;
    graph.scale = next;
    graph.svg.classList.toggle("far", next < 0.3);
    graph.svg.setAttribute("width", graph.width * next);
    graph.svg.setAttribute("height", graph.height * next);
    graph.scroll.scrollLeft = left; graph.scroll.scrollTop = top;
  };
  const fit = () => graph.svg && zoom(Math.min(1, graph.scroll.clientWidth / graph.width, graph.scroll.clientHeight / graph.height));
  const boxAt = (at) => {
    if (!at) return undefined;
    const side = model.sides[at.language];
    if (at.language === graph.language) return side.blockAt[at.line] < 0 ? undefined : side.blockAt[at.line];
    const pair = pairsOf(at.language, side.instructionAt[at.line])[0];
    return pair === undefined ? undefined : model.sides[graph.language].blockOf[pair];
  };
  const graphSelect = (centre = false) => {
    if (!graph.svg) return;
    const chosen = boxAt(model.at);
    graph.boxes.forEach((box, block) => box.classList.toggle("at", block === chosen));
    if (chosen === undefined) return;
    const [x, y, width, height] = model.sides[graph.language].picture.boxes[chosen].slice(0, 4).map((value) => value * graph.scale);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = graph.scroll;
    if (centre || y < scrollTop || y + height > scrollTop + clientHeight) graph.scroll.scrollTop = y + height / 2 - clientHeight / 2;
    if (centre || x < scrollLeft || x + width > scrollLeft + clientWidth) graph.scroll.scrollLeft = x + width / 2 - clientWidth / 2;
  };
  const graphHover = () => {
    if (!graph.svg) return;
    const chosen = boxAt(model.over);
    graph.boxes.forEach((box, block) => box.classList.toggle("over", block === chosen));
  };

  /* Opening, closing, moving. */
  const showFinding = (finding) => {
    model.finding = finding;
    byId("code-finding").value = finding?.id ?? "";
    mark();
    for (const language of Object.keys(model.sides)) drawPane(language, true);
    const primary = finding?.places.map(([name]) => place(name)).find(Boolean);
    drawGraph(primary?.language ?? graph.language);
    if (primary) select(primary, { centre: true });
    graphSelect(true);
  };
  const showRoles = () => {
    const box = byId("code-roles");
    box.hidden = !model.roles.size;
    box.replaceChildren(make("span", { className: "muted", textContent: "Roles" }));
    for (const role of model.roles.values()) {
      const button = make("button", { type: "button", className: "role-button", title: `${role.ctas.length > 1 || model.ctas > 1 ? `CTA ${role.ctas.join(", ")}\n` : ""}${role.does.map(([what, times]) => `${times} × ${what}`).join("\n")}` }, swatch(role), role.name, make("small", { textContent: character(role) }));
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        model.only = model.only === role ? null : role;
        for (const one of box.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === button && model.only !== null));
        for (const language of Object.keys(model.sides)) drawPane(language, true);
        drawGraph(graph.language); graphSelect();
      });
      box.append(button);
    }
  };
  /* A role in a few words: what it does that fewest others do. */
  const character = (role) => {
    const roles = [...model.roles.values()];
    const rarity = (what) => roles.filter((one) => one.does.some(([name]) => name === what)).length;
    const own = role.does.filter(([what]) => rarity(what) <= Math.max(1, roles.length / 2));
    own.sort((one, two) => rarity(one[0]) - rarity(two[0]) || two[1] - one[1]);
    return own.slice(0, 2).map(([what]) => what).join(", ");
  };
  const show = (code, anchor) => {
    model = indexed(code);
    model.anchor = anchor;
    model.ctas = new Set(code.roles.map((role) => role.cta)).size;
    model.findings = context.findingsOf(anchor);
    model.steps = new Map();
    dialog.dataset.sides = Object.keys(model.sides).join(" ");
    byId("code-name").textContent = code.shown;
    byId("code-name").title = code.name;
    for (const [language, pane] of Object.entries(panes)) {
      const side = model.sides[language];
      pane.root.hidden = !side;
      byId("tab-" + language).hidden = !side;
      if (!side) continue;
      setMargin(side, pane.root);
      pane.root.classList.toggle("has-roles", model.roles.size > 0);
      pane.root.style.setProperty("--lanes", model.roles.size * LANE + "px");
      arrange(side);
      pane.space.style.height = side.shown.length * LINE + "px";
      pane.title.textContent = language.toUpperCase();
      pane.facts.textContent = `${count(side.lineOf.length, "instruction")}, ${shortFile(side.listing)}`;
      pane.facts.title = side.listing;
      pane.scroll.scrollTop = 0; pane.scroll.scrollLeft = 0;
    }
    dialog.querySelector("footer").classList.toggle("sourceless", !code.sources.length);
    const pairs = code.pairs;
    byId("code-join").textContent = pairs ? `${pairs.ptxOf.filter((one) => one >= 0).length.toLocaleString("en")} of ${count(pairs.ptxOf.length, "SASS instruction")} paired by the ${pairs.method}, confidence ${pairs.confidence}` : "";
    const chooser = byId("code-finding");
    chooser.hidden = !model.findings.length;
    chooser.replaceChildren(make("option", { value: "", textContent: count(model.findings.length, "finding") }), ...model.findings.map((one) => make("option", { value: one.id, textContent: `${one.severity}: ${one.rule}` })));
    showRoles();
    showBudget();
    tab(matchMedia("(max-width: 760px)").matches ? Object.keys(model.sides)[0] : "");
  };
  const open = async (anchor, { at = "", finding = null } = {}) => {
    /* A browser without DecompressionStream has the rest of the page. */
    const code = await load(anchor).catch(() => null);
    if (!code) return false;
    const again = model?.anchor === anchor && dialog.open;
    if (!again) show(code, anchor);
    if (!dialog.open) dialog.showModal();
    document.documentElement.classList.add("code-open");
    if (!again) { model.finding = finding; mark(); for (const language of Object.keys(model.sides)) drawPane(language, true); drawGraph(place(at)?.language ?? Object.keys(model.sides)[0]); graph.scale = 1; fit(); if (graph.scale < 0.8) zoom(0.9); }
    if (finding && !at) showFinding(finding);
    else {
      byId("code-finding").value = model.finding?.id ?? "";
      select(place(at) ?? firstPlace(), { centre: true });
      graphSelect(true);
    }
    panes[model.active].scroll.focus({ preventScroll: true });
    return true;
  };
  const firstPlace = () => {
    const language = Object.keys(model.sides)[0], side = model.sides[language];
    const primary = model.findings.flatMap((one) => one.places).map(([name]) => place(name)).find(Boolean);
    return primary ?? { language, line: side.lineOf[0] };
  };
  const leave = () => { if (dialog.open) dialog.close(); };
  const move = (by) => {
    const { language, line } = model.at, side = model.sides[language];
    select({ language, line: side.shown[Math.min(side.shown.length - 1, Math.max(0, side.rowOf[line] + by))] });
  };
  const toggleLines = () => {
    allLines = !allLines;
    byId("lines-toggle").setAttribute("aria-pressed", String(allLines));
    for (const [language, side] of Object.entries(model.sides)) {
      arrange(side);
      panes[language].space.style.height = side.shown.length * LINE + "px";
      drawPane(language, true);
    }
    select(model.at, { centre: true });
  };
  const moveTo = (forward, wanted) => {
    const { language, line } = model.at, side = model.sides[language];
    for (let at = line + (forward ? 1 : -1); at >= 0 && at < side.lines.length; at += forward ? 1 : -1) {
      if ((allLines || side.essential[at]) && wanted(side, at)) { select({ language, line: at }); return; }
    }
  };
  const cross = () => {
    const { language, line } = model.at, to = other[language], theirs = model.sides[to];
    if (!theirs) return;
    const instruction = model.sides[language].instructionAt[line];
    const pairs = pairsOf(language, instruction);
    const best = pairs.find((pair) => model.telling.has(pair)) ?? pairs[0] ?? nearestPair(language, instruction);
    const seen = Math.floor((panes[to].scroll.scrollTop + panes[to].scroll.clientHeight / 3) / LINE);
    tab(dialog.dataset.tab ? to : "");
    select({ language: to, line: best === undefined || best === null ? theirs.shown[Math.min(seen, theirs.shown.length - 1)] : theirs.lineOf[best] });
  };
  const isSync = (side, line) => side.instructionAt[line] >= 0 && Boolean(side.sync[side.instructionAt[line]]);
  const find = (back) => {
    const wanted = byId("code-find").value.toLowerCase();
    if (!wanted) return;
    const { language, line } = model.at, side = model.sides[language], total = side.lines.length;
    for (let step = 1; step <= total; step++) {
      const at = (line + (back ? -step : step) + 2 * total) % total;
      if (side.lines[at].toLowerCase().includes(wanted) || side.label(at) === wanted) {
        if (!side.essential[at] && !allLines) toggleLines();
        byId("code-found").textContent = language === "ptx" ? `line ${side.label(at)}` : `offset ${side.label(at)}`;
        select({ language, line: at }, { centre: true });
        return;
      }
    }
    byId("code-found").textContent = `not in the ${language.toUpperCase()}`;
  };
  const toggleGraph = () => {
    const shown = dialog.classList.toggle("no-graph");
    byId("graph-toggle").setAttribute("aria-pressed", String(!shown));
    for (const language of Object.keys(model.sides)) drawPane(language, true);
    if (!shown) graphSelect(true);
  };
  const tab = (name) => {
    dialog.dataset.tab = name;
    for (const button of dialog.querySelectorAll("[data-tab-name]")) button.setAttribute("aria-selected", String(button.dataset.tabName === name));
    if (name === "graph") graphSelect(true);
    else if (name && model) {
      /* A pane that was hidden has not scrolled along. */
      const line = !model.at ? null : model.at.language === name ? model.at.line : pairedLine(model.at);
      if (line !== null) reveal(name, line, true);
      drawPane(name, true);
    }
  };
  const page = () => Math.max(1, Math.floor(panes[model.at.language].scroll.clientHeight / LINE) - 3);
  const KEYS = {
    ArrowDown: () => move(1), ArrowUp: () => move(-1), j: () => move(1), k: () => move(-1),
    PageDown: () => move(page()), PageUp: () => move(-page()), Home: () => move(-Infinity), End: () => move(Infinity),
    ArrowLeft: cross, ArrowRight: cross, Enter: cross,
    n: () => moveTo(true, isSync), p: () => moveTo(false, isSync),
    f: () => moveTo(true, (side, line) => side.marks.has(line)), F: () => moveTo(false, (side, line) => side.marks.has(line)),
    g: toggleGraph, l: toggleLines, t: () => context.switchTheme(),
    "/": () => { byId("code-find").focus(); byId("code-find").select(); },
  };
  const setUp = (given) => {
    context = given;
    dialog = byId("code");
    for (const language of Object.keys(LETTERS)) setUpPane(language);
    setUpGraph();
    byId("code-close").addEventListener("click", leave);
    byId("graph-toggle").addEventListener("click", toggleGraph);
    byId("lines-toggle").addEventListener("click", toggleLines);
    byId("code-finding").addEventListener("change", (event) => showFinding(model.findings.find((one) => one.id === event.target.value) ?? null));
    for (const button of dialog.querySelectorAll("[data-tab-name]")) button.addEventListener("click", () => tab(button.dataset.tabName));
    byId("code-find").addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); find(event.shiftKey); }
      /* A search field takes the first Escape for itself; here it leads back to the code. */
      if (event.key === "Escape") { event.preventDefault(); panes[model.active].scroll.focus(); }
      event.stopPropagation();
    });
    dialog.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, button, a")) {
        if (!(event.target.matches("button, a") && event.key.length === 1)) return;
      }
      const action = KEYS[event.key];
      if (action) { event.preventDefault(); event.stopPropagation(); action(); }
    });
    dialog.addEventListener("close", () => {
      document.documentElement.classList.remove("code-open");
      if (location.hash.startsWith("#c-")) history.replaceState(null, "", location.pathname + location.search);
    });
    new ResizeObserver(() => { if (dialog.open && model) for (const language of Object.keys(model.sides)) drawPane(language); }).observe(dialog);
  };
  return { setUp, open, leave, isOpen: () => Boolean(dialog?.open) };
})();
