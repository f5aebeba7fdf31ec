// One frame of the picture: panels, racks and nodes in as much detail as their size on the screen allows.

import { type Colours, STEPS } from "./colours";
import type { Box, Cell, Layout, Panel, Row } from "./layout";
import type { Look, Mark } from "./looks";
import { pathKey, type Place } from "./tree";

export interface Scene {
  layout: Layout;
  look: (node: string) => Look;
  /** The free amount of a domain, as text. */
  figure: (place: Place) => string;
  /** The line after the name of a wide domain, such as "64 nodes". */
  note: (place: Place) => string;
  /** Texts of domains that nearly fit the selected gang, by path. */
  near: ReadonlyMap<string, string>;
  /** Whether something is selected: the rest recedes. */
  muted: boolean;
  /** The domain or node that the keyboard has reached. */
  focus: string;
  colours: Colours;
}

/** The zoom of the picture, as d3-zoom reports it. */
export interface Moved {
  x: number;
  y: number;
  k: number;
}

/** Pixels of a node from which it shows marks, or its own fill. Below, its rack is one bar. */
const MARKED = 10;
const FILLED = 3;
/** Pixels of a rack from which it is seen by itself. Below, its panel is one tile. */
const BAR = 3;
const TEXT = 12;
const FONT = `${TEXT}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
const BOLD = `600 ${FONT}`;
const SLANT = 4;

type Context = CanvasRenderingContext2D;

/** The images of nodes by look, for one size of a node. Most nodes share few looks. */
export class Sprites {
  #size = "";
  readonly #images = new Map<string, HTMLCanvasElement>();

  clear(): void {
    this.#size = "";
  }

  of(look: Look, w: number, h: number, scene: Scene): HTMLCanvasElement {
    const ratio = devicePixelRatio || 1;
    const size = `${w} ${h} ${ratio}`;
    if (size !== this.#size) {
      this.#size = size;
      this.#images.clear();
    }
    let image = this.#images.get(look.signature);
    if (!image) {
      image = document.createElement("canvas");
      image.width = Math.ceil(w * ratio);
      image.height = Math.ceil(h * ratio);
      const context = image.getContext("2d");
      if (context) {
        context.scale(ratio, ratio);
        node(context, look, w, h, scene);
      }
      this.#images.set(look.signature, image);
    }
    return image;
  }
}

function hatch(context: Context, box: Box, rising: boolean, colour: string): void {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.w, box.h);
  context.clip();
  context.beginPath();
  for (let at = -box.h; at < box.w + box.h; at += SLANT) {
    context.moveTo(box.x + at, rising ? box.y + box.h : box.y);
    context.lineTo(box.x + at + box.h, rising ? box.y : box.y + box.h);
  }
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.stroke();
  context.restore();
  edge(context, box, colour, 1);
}

function edge(context: Context, box: Box, colour: string, width: number): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(box.x + width / 2, box.y + width / 2, Math.max(0, box.w - width), Math.max(0, box.h - width));
}

/** One mark: filled if used, hatched if reserved or terminating, an outline if free. */
function draw(context: Context, box: Box, mark: Mark, look: Look, { colours, muted }: Scene): void {
  const found = mark.found === undefined ? undefined : colours.found[mark.found];
  const own = mark.lit ? colours.accent : found;
  if (mark.kind === "used") {
    context.fillStyle = own ?? (muted ? colours["used-far"] : colours.used);
    context.fillRect(box.x, box.y, box.w, box.h);
  } else if (mark.kind === "fits") {
    context.fillStyle = colours["wait-soft"];
    context.fillRect(box.x, box.y, box.w, box.h);
    edge(context, box, colours["wait-fill"], 1.5);
  } else if (mark.kind === "free") {
    if (look.planned) {
      context.fillStyle = colours["accent-soft"];
      context.fillRect(box.x, box.y, box.w, box.h);
    }
    edge(context, box, look.planned ? colours.accent : colours.free, 1);
  } else hatch(context, box, mark.kind === "reserved", own ?? (mark.kind === "reserved" ? colours.go : colours.out));
}

interface Grid {
  columns: number;
  w: number;
  h: number;
  gap: number;
  /** The pixels before the first mark, so that the marks are in the middle. */
  left: number;
  top: number;
}

/** The arrangement with the largest marks, on whole pixels; undefined if the marks have no space. */
function gridOf(pieces: number, width: number, height: number): Grid | undefined {
  const gap = Math.min(width, height) >= 24 ? 2 : 1;
  let best: Grid | undefined;
  for (const columns of [1, 2, 4, 8]) {
    if (columns > pieces) break;
    const lines = Math.ceil(pieces / columns);
    const w = Math.floor((width - gap * (columns - 1)) / columns);
    const h = Math.floor((height - gap * (lines - 1)) / lines);
    const [left, top] = [width - columns * (w + gap) + gap, height - lines * (h + gap) + gap].map((rest) => Math.floor(rest / 2)) as [number, number];
    if (Math.min(w, h) >= 2 && (!best || Math.min(w, h) > Math.min(best.w, best.h))) best = { columns, w, h, gap, left, top };
  }
  return best;
}

/** A node with one mark for each piece, or with shares of its area. */
function node(context: Context, look: Look, w: number, h: number, scene: Scene): void {
  const { colours } = scene;
  context.fillStyle = colours.surface;
  context.fillRect(0, 0, w, h);
  const frame = look.framed || look.planned;
  edge(context, { x: 0, y: 0, w, h }, frame ? colours.accent : colours.line, frame ? 2 : 1);
  const pad = w >= 18 ? 3 : 2;
  const [innerW, innerH] = [w - 2 * pad, h - 2 * pad];
  context.globalAlpha = look.closed ? 0.35 : 1;
  const grid = look.pieces ? gridOf(look.pieces, innerW, innerH) : undefined;
  if (grid) {
    let at = 0;
    for (const mark of look.marks)
      for (let left = Math.round(mark.count); left > 0 && at < look.pieces; left -= 1, at += 1) {
        const x = pad + grid.left + (at % grid.columns) * (grid.w + grid.gap);
        const y = pad + grid.top + Math.floor(at / grid.columns) * (grid.h + grid.gap);
        draw(context, { x, y, w: grid.w, h: grid.h }, mark, look, scene);
      }
  } else {
    const whole = look.marks.reduce((sum, mark) => sum + mark.count, 0) || 1;
    let before = 0;
    for (const mark of look.marks) {
      const [top, bottom] = [before, before + mark.count].map((count) => pad + Math.round((count / whole) * innerH)) as [number, number];
      if (bottom > top) draw(context, { x: pad, y: top, w: innerW, h: bottom - top }, mark, look, scene);
      before += mark.count;
    }
  }
  context.globalAlpha = 1;
  if (look.closed) {
    context.beginPath();
    context.moveTo(2, 2);
    context.lineTo(w - 2, h - 2);
    context.moveTo(w - 2, 2);
    context.lineTo(2, h - 2);
    context.strokeStyle = colours.muted;
    context.lineWidth = 1.4;
    context.stroke();
  }
}

/** The fill of a node or bar that is too small for marks. */
function fill(look: Look, { colours, muted }: Scene): string {
  const own = look.marks.find((mark) => mark.lit || mark.found !== undefined);
  if (look.planned || own?.lit) return colours.accent;
  if (own) return colours.found[own.found ?? 0] ?? colours.used;
  if (look.marks.some((mark) => mark.kind === "fits")) return colours["wait-fill"];
  if (look.marks[0]?.kind === "reserved") return colours.go;
  if (look.marks[0]?.kind === "terminating") return colours.out;
  if (look.closed) return colours["line-strong"];
  const step = Math.round(look.taken * STEPS);
  return colours.fills[muted ? Math.floor(step / 2) : step] ?? colours.used;
}

export class Painter {
  readonly #width: number;
  readonly #height: number;
  readonly #cell: { w: number; h: number };

  constructor(
    readonly context: Context,
    readonly scene: Scene,
    readonly moved: Moved,
    readonly sprites: Sprites,
  ) {
    const ratio = devicePixelRatio || 1;
    this.#width = context.canvas.width / ratio;
    this.#height = context.canvas.height / ratio;
    this.#cell = { w: scene.layout.cell.w * moved.k, h: scene.layout.cell.h * moved.k };
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
  }

  paint(): void {
    const { context, scene } = this;
    context.fillStyle = scene.colours.surface;
    context.fillRect(0, 0, this.#width, this.#height);
    for (const title of scene.layout.titles) {
      const box = this.#seen(title);
      if (box) this.#title(box, title.place, box.x);
    }
    for (const panel of scene.layout.panels) {
      const box = this.#seen(panel);
      if (box) this.#panel(panel, box);
    }
  }

  /** The box on the screen; undefined outside of it. */
  #seen(box: Box): Box | undefined {
    const { x, y, k } = this.moved;
    const seen = { x: box.x * k + x, y: box.y * k + y, w: box.w * k, h: box.h * k };
    if (seen.x + seen.w <= 0 || seen.y + seen.h <= 0 || seen.x >= this.#width || seen.y >= this.#height) return undefined;
    return seen;
  }

  /** Write a text if it has space. Return its width; 0: it has none. */
  #text(text: string, x: number, y: number, space: number, colour: string, font = FONT, right = false): number {
    if (!text || space < TEXT) return 0;
    const { context } = this;
    context.font = font;
    const width = context.measureText(text).width;
    if (width > space) return 0;
    context.fillStyle = colour;
    context.fillText(text, right ? x - width : x, y);
    return width;
  }

  /** The name of a domain on the left of a line, its free amount on the right. */
  #title(box: Box, place: Place, left: number): void {
    const { colours } = this.scene;
    if (box.h < TEXT) return;
    const [y, right] = [box.y + box.h / 2, box.x + box.w - 6];
    const name = this.#text(place.name, left, y, right - left, colours.text, BOLD);
    if (!name) return;
    const near = this.scene.near.get(pathKey(place.path));
    const figure = this.#text(near ?? this.scene.figure(place), right, y, right - left - name - 12, near ? colours.wait : colours.muted, near ? BOLD : FONT, true);
    if (!near) this.#text(this.scene.note(place), left + name + 8, y, right - left - name - figure - 24, colours.muted);
  }

  #panel(panel: Panel, box: Box): void {
    const { context, scene } = this;
    const { colours } = scene;
    const near = scene.near.has(pathKey(panel.place.path));
    if (panel.framed) {
      context.beginPath();
      context.roundRect(box.x, box.y, box.w, box.h, Math.min(8, box.w / 8));
      context.fillStyle = colours.sunk;
      context.fill();
      context.strokeStyle = near ? colours["wait-fill"] : colours.line;
      context.lineWidth = near ? 2 : 1;
      context.stroke();
      const high = 24 * this.moved.k;
      this.#title({ ...box, h: high }, panel.place, box.x + 8);
    }
    const high = (panel.rows[0]?.h ?? 0) * this.moved.k;
    if (high < BAR) this.#tile(panel, box);
    else for (const row of panel.rows) this.#row(row);
    this.#focus(panel.place, box);
  }

  /** A panel whose racks are too small: one bar of their shares. */
  #tile(panel: Panel, box: Box): void {
    const top = panel.framed ? Math.min(box.h / 3, 24 * this.moved.k) : 0;
    this.#bar(panel.rows.flatMap((row) => row.cells), { x: box.x + 2, y: box.y + top, w: box.w - 4, h: box.h - top - 2 });
  }

  #bar(cells: Cell[], box: Box): void {
    const shares = new Map<string, number>();
    for (const cell of cells) {
      const colour = fill(this.scene.look(cell.place.name), this.scene);
      shares.set(colour, (shares.get(colour) ?? 0) + 1);
    }
    let x = box.x;
    for (const [colour, count] of shares) {
      const width = (box.w * count) / cells.length;
      this.context.fillStyle = colour;
      this.context.fillRect(x, box.y, width, Math.max(1, box.h - 1));
      x += width;
    }
  }

  #row(row: Row): void {
    const box = this.#seen(row);
    if (!box) return;
    const { context, scene } = this;
    const { colours, layout } = scene;
    const { k } = this.moved;
    const near = scene.near.get(pathKey(row.place.path));
    if (near !== undefined) {
      context.fillStyle = colours["wait-soft"];
      context.fillRect(box.x, box.y, box.w, box.h);
      edge(context, { x: box.x - 1, y: box.y - 1, w: box.w + 2, h: box.h + 1 }, colours["wait-fill"], 2);
    }
    if (layout.label && this.#cell.h >= TEXT) {
      const y = box.y + (box.h - 3 * k) / 2;
      this.#text(row.place.name, box.x + 4, y, layout.label * k - 8, colours.text);
      const figure = near ?? scene.figure(row.place);
      const strong = near !== undefined || !figure.startsWith("0");
      this.#text(figure, box.x + box.w - 4, y, layout.figure * k - 6, near ? colours.wait : strong ? colours.text : colours.muted, strong ? BOLD : FONT, true);
    }
    const side = Math.min(this.#cell.w, this.#cell.h);
    if (side < FILLED) this.#bar(row.cells, box);
    else for (const cell of row.cells) this.#cellOf(cell, side);
    this.#focus(row.place, box);
  }

  #cellOf(cell: Cell, side: number): void {
    const { x, y, k } = this.moved;
    const [left, top] = [Math.round(cell.x * k + x), Math.round(cell.y * k + y)];
    if (left > this.#width || top > this.#height || left + this.#cell.w < 0 || top + this.#cell.h < 0) return;
    const look = this.scene.look(cell.place.name);
    const gap = side >= 20 ? 3 : side >= 5 ? 1 : 0;
    const [w, h] = [Math.max(1, Math.floor(this.#cell.w) - gap), Math.max(1, Math.floor(this.#cell.h))];
    if (side >= MARKED) this.context.drawImage(this.sprites.of(look, w, h, this.scene), left, top, w, h);
    else {
      this.context.fillStyle = fill(look, this.scene);
      this.context.fillRect(left, top, w, h - (side >= 5 && h > 3 ? 1 : 0));
    }
    this.#focus(cell.place, { x: left, y: top, w, h });
  }

  #focus(place: Place, box: Box): void {
    if (!this.scene.focus || this.scene.focus !== pathKey(place.path)) return;
    edge(this.context, { x: box.x - 2, y: box.y - 2, w: box.w + 4, h: box.h + 4 }, this.scene.colours.accent, 2);
  }
}
