"use strict";
/* The whole time line: what is in sight, as boxes when it is little, else as counts in an image.

   Everything that is drawn comes from `values`, the packed levels and the packed blocks of the page.
   Nothing is unpacked before somebody looks at it, and nothing is drawn more than once a frame. */
(() => {
  const OPEN = 0xFFFFFFFF, NOTHING = 0xFFFFFFFF;
  const MOST_BOXES = 2500, MOST_DOTS = 1000000, MOST_CELLS = 300000, KEPT_BLOCKS = 48, REACH_BACK = 8, MOST_TEXTS = 80;
  const AT_ONCE = 1 << 18;
  const READING = 1, HALF_WIDTH = 0.5, LABEL_PX = 12;
  const values = JSON.parse(document.getElementById("values").textContent);
  const chart = document.getElementById("chart"), tip = document.getElementById("tip");
  const details = document.getElementById("details"), sight = document.getElementById("sight");
  const lanes = values.lanes.length, outcomes = values.outcomes.length;
  const faultLanes = values.faults.lanes, spanLanes = faultLanes + values.leaders.lanes;
  // A fault that hit several nodes has a span in the lanes of each.
  const faults = [...new Map(values.faults.spans.map((span) => [span.lines[0], span])).values()];
  const levels = values.spans.map((spans) => ({spans, counts: null, wanted: false}));
  const blocks = values.blocks.map((block) => ({...block, rows: starts(block.rows), columns: null,
                                                wanted: false, used: 0}));
  let doc, model, time, ops, plots, colours, finest, ndarray, planned = false, used = 0, shown = null, named = "";
  window.logquakeTimeline = {state: () => shown, look};

  /* --- unpacking ------------------------------------------------------------------------- */

  /* Lets frames and hands in between two parts of a long work. */
  const turn = () => new Promise((go) => setTimeout(go, 0));

  async function unpacked(id) {
    const text = atob(document.getElementById(id).textContent.trim());
    const packed = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) {
      if (at % AT_ONCE === 0) await turn();
      packed[at] = text.charCodeAt(at);
    }
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function unpackLevel(level, number) {
    level.wanted = true;
    const bytes = await unpacked(`level-${number}`), count = bytes.length / 2;
    const counts = new Uint16Array(count);
    for (let at = 0; at < count; at++) {
      if (at % AT_ONCE === 0) await turn();
      counts[at] = bytes[at] | bytes[count + at] << 8;
    }
    level.counts = counts;
  }

  async function unpackBlock(block, number) {
    block.wanted = true;
    const bytes = await unpacked(`block-${number}`), count = block.count, columns = {};
    for (const [which, name] of values.columns.entries()) {
      await turn();
      const column = new Uint32Array(count), from = 4 * count * which;
      const differs = values.differences.includes(name);
      let before = 0;
      for (let at = 0; at < count; at++) {
        const number = bytes[from + at] | bytes[from + count + at] << 8
          | bytes[from + 2 * count + at] << 16 | bytes[from + 3 * count + at] << 24;
        before = differs ? before + number >>> 0 : number >>> 0;
        column[at] = before;
      }
      columns[name] = column;
    }
    block.columns = columns;
    block.wanted = false;
    forget();
  }

  /* Blocks that nobody has looked at for long are packed again: by dropping what was unpacked. */
  function forget() {
    const there = blocks.filter((block) => block.columns);
    there.sort((a, b) => a.used - b.used);
    there.slice(0, Math.max(0, there.length - KEPT_BLOCKS)).forEach((block) => block.columns = null);
  }

  function starts(rows) {
    const found = new Uint32Array(rows.length + 1);
    rows.forEach((count, lane) => found[lane + 1] = found[lane] + count);
    return found;
  }

  /* --- what is in sight ------------------------------------------------------------------ */

  function look(from, to) {
    const width = Math.min(values.end, Math.max(to - from, time.min_interval));
    const start = Math.min(Math.max(0, from), values.end - width);
    time.setv({start, end: start + width});
  }

  function move(share) {
    const width = time.end - time.start;
    look(time.start + share * width, time.end + share * width);
  }

  function zoom(factor) {
    const middle = (time.start + time.end) / 2, half = (time.end - time.start) / 2 * factor;
    look(middle - half, middle + half);
  }

  function moveLanes(share) {
    const range = ops.y_range, height = range.end - range.start;
    const start = Math.min(Math.max(0, range.start + share * height), Math.max(0, lanes - height));
    range.setv({start, end: start + height});
  }

  function fault(step) {
    const middle = (time.start + time.end) / 2;
    const mid = (span) => (span.start_s + span.end_s) / 2;
    const all = faults.slice().sort((a, b) => mid(a) - mid(b));
    const close = 1e-7 * values.end;
    const found = step > 0 ? all.find((span) => mid(span) > middle + close)
      : all.reverse().find((span) => mid(span) < middle - close);
    if (!found) return;
    const width = Math.max(found.end_s - found.start_s, 0.01) * 2;
    look(mid(found) - width, mid(found) + width);
    details.textContent = found.lines.join("\n");
  }

  const deeds = {
    whole: () => { look(0, values.end); ops.y_range.setv({start: 0, end: Math.max(1, lanes)}); },
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25),
    next: () => fault(1), previous: () => fault(-1),
    up: () => moveLanes(0.2), down: () => moveLanes(-0.2),
  };
  const keys = {ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", "+": "in",
                "=": "in", "-": "out", "0": "whole", Home: "whole", n: "next", p: "previous"};

  /* --- drawing --------------------------------------------------------------------------- */

  function plan() {
    tip.hidden = true;
    if (planned) return;
    planned = true;
    // After the frame in which the figures are painted, not in it: neither waits for the other.
    requestAnimationFrame(() => setTimeout(() => { planned = false; draw(); }, 0));
  }

  function draw() {
    const from = time.start, to = time.end, width = to - from;
    const lowest = Math.max(0, Math.floor(lanes - ops.y_range.end));
    const highest = Math.min(lanes, Math.ceil(lanes - ops.y_range.start));
    const dots = Math.max(200, Math.round(plots.operations.frame.bbox.width));
    const count = inSight(from, to);
    sight.textContent = `${seconds(from)} to ${seconds(to)}${count === null ? "" :
      `, ${count.toLocaleString("en")} operations`}`;
    const near = count !== null && count <= values.close ? blocksOf(from, to) : null;
    const view = {from, to, width, lowest, highest, dots};
    const ready = near && near.every((block) => block.columns);
    if (near) near.filter((block) => !block.columns && !block.wanted).forEach((block) =>
      unpackBlock(block, blocks.indexOf(block)).then(plan));
    const form = ready ? fewBoxes(view, near) : null;
    // Boxes and images reach beyond what is in sight: they are made anew when they no longer do.
    const within = shown && shown.from <= from && shown.to >= to && shown.width <= width * 1.6
      && shown.width >= width * 0.7 && shown.lowest <= lowest && shown.highest >= highest;
    const kind = form ? "boxes" : ready ? "near" : "level";
    if (!within || shown.kind !== kind || kind === "level" && shown.level !== levelOf(view)) {
      const wide = {...view, from: Math.max(0, from - HALF_WIDTH * width),
                    to: Math.min(values.end, to + HALF_WIDTH * width)};
      if (kind === "boxes") drawBoxes(wide, near);
      else if (kind === "near") drawImage(wide, nearCounts(wide, near));
      else if (!drawLevel(wide)) return;
      shown = {...wide, kind, level: levelOf(view), boxes: kind === "boxes" ? form.count : 0};
    }
    nameSpans(from, to);
    for (const figure of [model.spans, ops]) label(figure);
  }

  /* Names of lanes: all, or as many as have room. A lane without a name belongs to the one above. */
  function label(figure) {
    const names = figure === ops ? values.lanes : values.above, range = figure.y_range;
    const lane = plots[figure.name].frame.bbox.height / (range.end - range.start);
    const step = Math.max(1, Math.ceil(LABEL_PX / lane)), ticks = [];
    for (let at = 0; at < names.length; at++)
      if (names[at] && (step === 1 || at % step === 0)) ticks.push(names.length - at - 0.5);
    const ticker = figure.left[0].ticker;
    if (String(ticker.ticks) !== String(ticks)) ticker.ticks = ticks;
  }

  function inSight(from, to) {
    if (!finest) return null;
    const {spans} = finest;
    const low = Math.max(0, Math.floor(from / values.end * spans));
    const high = Math.min(spans, Math.ceil(to / values.end * spans));
    const whole = finest.before[high] - finest.before[low];
    const share = (to - from) / values.end * spans / Math.max(1, high - low);
    return Math.round(whole * share);
  }

  function blocksOf(from, to) {
    const low = from * 1e6, high = to * 1e6, found = [];
    let back = REACH_BACK;
    for (let at = blocks.length - 1; at >= 0; at--) {
      const block = blocks[at];
      if (block.start > high) continue;
      if (block.end >= low) found.push(block);
      else if (back-- > 0 && block.end + block.longest >= low) found.push(block);
      if (back < 0) break;
    }
    if (found.some((block) => !block.there)) return null;
    used += 1;
    found.forEach((block) => block.used = used);
    return found;
  }

  /* Calls `each(block, row, lane, start, end)` for the operations that touch a span, in seconds. */
  function operationsOf(view, near, each) {
    for (const block of near) {
      const {start, took} = block.columns;
      for (let lane = view.lowest; lane < view.highest; lane++) {
        const first = block.rows[lane], last = block.rows[lane + 1];
        let row = Math.max(first, after(start, first, last, view.from * 1e6 - block.start) - 1);
        for (; row < last; row++) {
          const begun = (block.start + start[row]) / 1e6;
          if (begun > view.to) break;
          const next = row + 1 < last ? (block.start + start[row + 1]) / 1e6 : begun + 1;
          const ended = took[row] === OPEN ? next : begun + took[row] / 1e6;
          if (ended >= view.from && each(block, row, lane, begun, ended) === false) return;
        }
      }
    }
  }

  function after(sorted, low, high, wanted) {
    while (low < high) {
      const middle = low + high >> 1;
      if (sorted[middle] <= wanted) low = middle + 1; else high = middle;
    }
    return low;
  }

  function fewBoxes(view, near) {
    let count = 0;
    operationsOf(view, near, () => ++count <= MOST_BOXES);
    return count <= MOST_BOXES ? {count} : null;
  }

  const outcomeOf = (kind) => Math.min(kind >> 3 & 3, outcomes - 1);

  function drawBoxes(view, near) {
    const columns = empty(["left", "right", "bottom", "top", "fill", "line"]);
    operationsOf(view, near, (block, row, lane, begun, ended) => {
      const kind = block.columns.kind[row], outcome = outcomeOf(kind), bottom = lanes - 1 - lane;
      const low = outcome === 0 && (kind & 7) === READING;
      columns.left.push(begun);
      columns.right.push(ended);
      columns.bottom.push(bottom + 0.1);
      columns.top.push(bottom + (low ? 0.5 : 0.9));
      columns.fill.push(colours.soft[outcome]);
      columns.line.push(colours.strong[outcome]);
    });
    fill("operations-boxes", columns);
    source("operations-image").data = image(1, 1, new Uint32Array(1), view);
  }

  function levelOf(view) {
    const wanted = view.dots * values.end / view.width;
    const at = levels.findIndex((level) => level.spans >= wanted * 0.75);
    return at < 0 ? levels.length - 1 : at;
  }

  function drawLevel(view) {
    let at = levelOf(view);
    if (!levels[at].counts) {
      if (!levels[at].wanted) unpackLevel(levels[at], at).then(plan);
      while (at >= 0 && !levels[at].counts) at--;
      if (at < 0) return false;
    }
    const {spans, counts} = levels[at], span = values.end / spans;
    const first = Math.floor(view.from / span), last = Math.min(spans, Math.ceil(view.to / span));
    view.from = first * span;
    view.to = last * span;
    drawImage(view, {first, spans: last - first, of: (lane, at, outcome) =>
      counts[(lane * spans + first + at) * outcomes + outcome]});
    return true;
  }

  /* Nearer, operations are longer than a dot: a column tells what was under way then. */
  function nearCounts(view, near) {
    const fine = Math.round((view.to - view.from) / view.width * view.dots);
    const rows = Math.max(1, view.highest - view.lowest);
    const spans = Math.max(1, Math.min(fine, Math.floor(MOST_CELLS / rows)));
    const counts = new Uint16Array((view.highest - view.lowest) * spans * outcomes);
    const scale = spans / (view.to - view.from);
    operationsOf(view, near, (block, row, lane, begun, ended) => {
      const first = Math.max(0, Math.floor((begun - view.from) * scale));
      const last = Math.min(spans - 1, Math.floor((ended - view.from) * scale));
      const outcome = outcomeOf(block.columns.kind[row]), before = (lane - view.lowest) * spans;
      for (let at = first; at <= last; at++) counts[(before + at) * outcomes + outcome]++;
    });
    return {first: 0, spans, of: (lane, at, outcome) =>
      counts[((lane - view.lowest) * spans + at) * outcomes + outcome]};
  }

  /* A lane is a few dots high: from below as many as the share of `ok`, above them the others. */
  function drawImage(view, told) {
    const rows = view.highest - view.lowest, {spans} = told;
    if (rows < 1 || spans < 1) {
      source("operations-image").data = image(1, 1, new Uint32Array(1), view);
      return;
    }
    const high = Math.max(1, Math.min(8, Math.floor(MOST_DOTS / Math.max(1, rows * spans))));
    const dots = new Uint32Array(rows * high * spans);
    let most = 1;
    for (let lane = view.lowest; lane < view.highest; lane++)
      for (let at = 0; at < spans; at++) {
        let whole = 0;
        for (let outcome = 0; outcome < outcomes; outcome++) whole += told.of(lane, at, outcome);
        if (whole > most) most = whole;
      }
    const inner = Math.max(1, high - (high > 3 ? 2 : 0)), lift = high > 3 ? 1 : 0;
    for (let row = 0; row < rows; row++) {
      const lane = view.highest - 1 - row;
      for (let at = 0; at < spans; at++) {
        const ok = told.of(lane, at, 0), fail = told.of(lane, at, 1), info = told.of(lane, at, 2);
        const whole = ok + fail + info;
        if (!whole) continue;
        const strength = 0.45 + 0.55 * Math.sqrt(whole / most);
        const infos = info ? Math.max(1, Math.round(inner * info / whole)) : 0;
        const fails = fail ? Math.max(1, Math.round(inner * fail / whole)) : 0;
        for (let dot = 0; dot < inner; dot++) {
          const from = inner - 1 - dot;
          const which = from < infos ? 2 : from < infos + fails ? 1 : 0;
          const alpha = which ? 255 : Math.round(255 * strength);
          dots[(row * high + lift + dot) * spans + at] = colours.dots[which] | alpha << 24;
        }
      }
    }
    source("operations-image").data = image(rows * high, spans, dots, view);
    fill("operations-boxes", empty(["left", "right", "bottom", "top", "fill", "line"]));
  }

  function image(height, width, dots, view) {
    const shape = {dtype: "uint32", shape: [height, width]};
    return {image: [ndarray(dots.buffer, shape)], x: [view.from], y: [lanes - view.highest],
            dw: [view.to - view.from], dh: [view.highest - view.lowest]};
  }

  /* Faults and leaders: they are few enough to be put there once. */
  function fillSpans() {
    const boxes = empty(["left", "right", "bottom", "top", "fill", "line"]);
    const shades = empty(Object.keys(boxes));
    for (const {span, bottom, fill: colour} of spansOf()) {
      const sides = [bottom, bottom + 0.8];
      const sure = span.sure_s === null ? span.end_s : Math.min(span.sure_s, span.end_s);
      if (sure > span.start_s) box(boxes, span.start_s, sure, sides, [colours.pale, colours.edge]);
      if (span.sure_s !== null) box(boxes, sure, span.end_s, sides, [colour, colours.edge]);
    }
    for (const span of faults) if (span.sure_s !== null)
      box(shades, span.sure_s, span.end_s, [0, Math.max(1, lanes)], [colours.shade, colours.shade]);
    fill("spans-boxes", boxes);
    fill("operations-shades", shades);
  }

  /* Their names, where there is room for them. */
  function nameSpans(from, to) {
    const dot = (to - from) / Math.max(1, plots.spans.frame.bbox.width);
    const texts = empty(["x", "y", "text"]);
    for (const {span, bottom} of spansOf()) {
      const left = Math.max(span.start_s, from), room = (Math.min(span.end_s, to) - left) / dot;
      if (room > 8 + 6.2 * span.label.length && texts.x.length < MOST_TEXTS) {
        texts.x.push(left);
        texts.y.push(bottom + 0.4);
        texts.text.push(span.label);
      }
    }
    // To paint the figure once more costs as much as to move it.
    const now = JSON.stringify(texts);
    if (now !== named) fill("spans-texts", texts);
    named = now;
  }

  function* spansOf() {
    const bottom = (lane) => spanLanes - 1 - lane + 0.1;
    for (const span of values.faults.spans)
      yield {span, bottom: bottom(span.lane), fill: colours.fault};
    for (const span of values.leaders.spans)
      yield {span, bottom: bottom(faultLanes + span.lane), fill: span.broker < 0 ? colours.nobody
        : colours.brokers[span.broker % colours.brokers.length]};
  }

  function box(columns, left, right, [bottom, top], [fill, line]) {
    columns.left.push(left);
    columns.right.push(right);
    columns.bottom.push(bottom);
    columns.top.push(top);
    columns.fill.push(fill);
    columns.line.push(line);
  }

  const empty = (names) => Object.fromEntries(names.map((name) => [name, []]));
  const source = (name) => sources.get(name);
  const sources = new Map();
  const fill = (name, columns) => { source(name).data = columns; };

  /* --- telling --------------------------------------------------------------------------- */

  const seconds = (time) => {
    const digits = Math.max(1, Math.min(6, Math.ceil(3 - Math.log10(timeWidth()))));
    return `${time.toFixed(digits)} s`;
  };
  const timeWidth = () => Math.max(1e-6, time.end - time.start);
  const big = (high, low) => BigInt.asIntN(64, BigInt(high) << 32n | BigInt(low));

  function toldOfOperations(x, y, whole = false) {
    const lane = lanes - 1 - Math.floor(y);
    if (lane < 0 || lane >= lanes || x < 0 || x > values.end || !shown) return "";
    const near = shown.kind === "level" ? null : blocksOf(x, x);
    if (!near || !near.every((block) => block.columns)) return toldOfSpan(x, lane);
    const slack = 3 * timeWidth() / plots.operations.frame.bbox.width;
    let best = null, closest = Infinity;
    const view = {from: x - slack, to: x + slack, lowest: lane, highest: lane + 1};
    operationsOf(view, near, (block, row, _lane, begun, ended) => {
      const away = x < begun ? begun - x : x > ended ? x - ended : 0;
      if (away < closest) { closest = away; best = {block, row, begun, ended}; }
    });
    return best ? toldOfOperation(best, lane, whole) : "";
  }

  /* What a value is called, as on every page: `log-0-0:v785`. */
  const valueName = (high, low) =>
    high > 0 && high <= values.prefixes.length ? `${values.prefixes[high - 1]}${low}` : `${big(high, low)}`;

  function toldOfOperation({block, row, begun, ended}, lane, whole) {
    const of = (name) => block.columns[name][row], kind = of("kind");
    const word = (words, number) => words[number] ?? "?";
    const never = of("took") === OPEN;
    const lines = [
      `${word(values.kinds, kind & 7)}  ${word(values.outcomes, kind >> 3 & 3)}`,
      `op p${of("process")}#${of("ordinal")}, ${values.lanes[lane]}, ${word(values.phases, kind >> 5)}`,
      never ? `from ${begun.toFixed(6)} s; never ended`
        : `${begun.toFixed(6)} s to ${ended.toFixed(6)} s: ${((ended - begun) * 1e3).toFixed(3)} ms`,
    ];
    const numbers = [`op ${big(of("idHigh"), of("idLow"))}`];
    if (of("place") !== NOTHING) {
      const more = of("messages") > 1 ? `, the first of ${of("messages")} messages` : "";
      const value = big(of("valueHigh"), of("valueLow")), offset = big(of("offsetHigh"), of("offsetLow"));
      const at = offset < 0n ? "" : ` at offset ${offset}`;
      const named = value < 0n ? "no value" : `value ${valueName(of("valueHigh"), of("valueLow"))}`;
      if (value >= 0n) numbers.push(`value ${value}`);
      lines.push(`${values.places[of("place")]}: ${named}${at}${more}`);
    }
    if (of("error") !== NOTHING) lines.push(values.errors[of("error")]);
    const outcome = word(values.outcomes, kind >> 3 & 3), means = values.terms[outcome];
    if (whole && means) lines.push(`${outcome}: ${means}`);
    if (whole) lines.push(`in the record: ${numbers.join(", ")}`);
    return lines.join("\n");
  }

  function toldOfSpan(x, lane) {
    const level = levels[shown.level]?.counts ? levels[shown.level] : levels.find((each) => each.counts);
    if (!level) return "";
    const span = values.end / level.spans, at = Math.min(level.spans - 1, Math.floor(x / span));
    const found = values.outcomes.map((_, which) =>
      level.counts[(lane * level.spans + at) * outcomes + which]);
    if (!found.some(Boolean)) return "";
    const counts = found.map((count, which) => `${count} ${values.outcomes[which]}`);
    return `${values.lanes[lane]}, ${(at * span).toFixed(3)} s to ${((at + 1) * span).toFixed(3)} s\n`
      + `operations that began then: ${counts.join(", ")}`;
  }

  function toldOfSpans(x, y) {
    const lane = spanLanes - 1 - Math.floor(y), slack = 2 * timeWidth() / plots.spans.frame.bbox.width;
    const mine = lane < faultLanes ? values.faults.spans : values.leaders.spans;
    const at = lane < faultLanes ? lane : lane - faultLanes;
    const found = mine.find((span) => span.lane === at && span.start_s - slack <= x
      && span.end_s + slack >= x);
    return found ? found.lines.join("\n") : "";
  }

  function listen(figure, told) {
    let at = null;
    figure.on_event("mousemove", (_model, event) => {
      const {x, y} = event ?? _model;
      if (at === null) requestAnimationFrame(() => { const [x, y] = at; at = null; show(told(x, y)); });
      at = [x, y];
    });
    figure.on_event("mouseleave", () => { tip.hidden = true; });
    figure.on_event("tap", (_model, event) => {
      const {x, y} = event ?? _model, text = told(x, y, true);
      if (text) details.textContent = text;
    });
  }

  let pointer = [0, 0];
  function show(text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const {width, height} = tip.getBoundingClientRect();
    const left = Math.min(pointer[0] + 14, innerWidth - width - 6);
    const top = pointer[1] + 18 + height > innerHeight ? pointer[1] - height - 12 : pointer[1] + 18;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  /* --- colours, of the page's style sheet: light or dark ----------------------------------- */

  function colour() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    const whole = (text) => text.length === 4 ? `#${[...text.slice(1)].map((each) => each + each).join("")}` : text;
    const strong = ["c0", "c1", "c5"].map((name) => whole(of(name)));
    const dot = (text) => parseInt(text.slice(5, 7) + text.slice(3, 5) + text.slice(1, 3), 16);
    colours = {
      strong, soft: strong.map((each) => `${each}b0`), dots: strong.map(dot),
      fault: `${whole(of("fault"))}90`, pale: `${whole(of("fault"))}30`, edge: whole(of("fault")),
      shade: `${whole(of("shade"))}26`, nobody: whole(of("invalid-bg")),
      brokers: ["c0", "c1", "c2", "c3", "c4", "c5"].map((name) => `${whole(of(name))}58`),
    };
    const ink = whole(of("ink")), soft = whole(of("soft")), line = whole(of("line")), bg = whole(of("bg"));
    for (const figure of [model.spans, model.operations]) {
      figure.setv({background_fill_color: bg, border_fill_color: bg, outline_line_color: line});
      for (const axis of [...figure.below, ...figure.left])
        axis.setv({axis_line_color: line, major_label_text_color: soft, axis_label_text_color: soft,
                   major_tick_line_color: axis === figure.below[0] ? line : null,
                   minor_tick_line_color: null});
      for (const grid of figure.center) grid.setv({grid_line_color: line, grid_line_alpha: 0.6});
    }
    doc.get_model_by_name("spans-words").glyph.setv({text_color: ink});
    fillSpans();
    shown = null;
  }

  /* --- beginning --------------------------------------------------------------------------- */

  async function begin() {
    // The coarsest level is needed at once, the finest to know how many operations are in sight.
    await Promise.all([0, levels.length - 1].map((at) => levels[at].wanted || unpackLevel(levels[at], at)));
    finest = levels[levels.length - 1];
    finest.before = new Float64Array(finest.spans + 1);
    for (let at = 0; at < finest.spans; at++) {
      let whole = 0;
      for (let lane = 0; lane < lanes; lane++)
        for (let outcome = 0; outcome < outcomes; outcome++)
          whole += finest.counts[(lane * finest.spans + at) * outcomes + outcome];
      finest.before[at + 1] = finest.before[at] + whole;
    }
    ({ndarray} = Bokeh.require("core/util/ndarray"));
    const views = await Bokeh.embed.embed_item(values.chart, chart);
    doc = Bokeh.documents[Bokeh.documents.length - 1];
    model = {spans: doc.get_model_by_name("spans"), operations: doc.get_model_by_name("operations")};
    ops = model.operations;
    time = ops.x_range;
    plots = {spans: views.find_one(model.spans), operations: views.find_one(ops)};
    for (const figure of ["spans", "operations"])
      for (const what of ["shades", "boxes", "image", "texts"])
        sources.set(`${figure}-${what}`, doc.get_model_by_name(`${figure}-${what}`));
    colour();
    for (const range of [time, ops.y_range])
      for (const edge of ["start", "end"]) range.properties[edge].change.connect(plan);
    listen(model.spans, toldOfSpans);
    listen(ops, toldOfOperations);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colour(); plan(); });
    new ResizeObserver(() => { shown = null; plan(); }).observe(chart);
    addEventListener("hashchange", jump);
    jump();
    draw();
    chart.dataset.ready = "yes";
  }

  /* `#t=12.5,13` shows those seconds; `#t=12.5` that moment. */
  function jump() {
    const told = /^#t=([0-9.]+)(?:,([0-9.]+))?$/.exec(location.hash);
    if (!told) return;
    const from = parseFloat(told[1]), to = parseFloat(told[2] ?? "NaN");
    if (Number.isFinite(to)) look(from, to); else look(from - 0.5, from + 0.5);
  }

  addEventListener("pointermove", (event) => { pointer = [event.clientX, event.clientY]; }, {passive: true});
  document.getElementById("buttons").addEventListener("click", (event) => {
    const deed = deeds[event.target.dataset.do];
    if (deed && time) deed();
  });
  chart.addEventListener("keydown", (event) => {
    const deed = deeds[keys[event.key]];
    if (!deed || !time || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    deed();
  });
  begin().catch((error) => {
    chart.textContent = `The time line cannot be drawn here: ${error}`;
    throw error;
  });
})();
