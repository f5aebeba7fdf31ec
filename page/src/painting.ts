// One frame of the picture: what is seen of the domains and nodes, in as much detail as there is room for.

import { type Colours, STEPS } from "./colours";
import { band, type Laid } from "./layout";

/** What is shown of a node. Shares are of the resource that the picture shows, 0 to 1. */
export interface Look {
  taken: number;
  held: number;
  leaving: number;
  closed: boolean;
  lit: boolean;
  /** Colours of the gangs there. */
  gangs: number[];
}

export interface Shown {
  laid: Laid;
  look: Look;
}

export interface Scene {
  root: Laid;
  /** The nodes by their fills. */
  nodes: ReadonlyMap<string, Shown[]>;
  /** Those of them that are to be told from the others. */
  lit: Laid[];
  /** What is to be said of domains, by themselves. */
  told: ReadonlyMap<Laid, string>;
  colours: Colours;
  byGang: boolean;
}

/** Where the picture has been moved to, as d3-zoom has it. */
export interface Moved {
  x: number;
  y: number;
  k: number;
}

/** Pixels of a node's side from which there is more than its fill. */
const MARKED = 4;
const HATCHED = 9;
const NAMED_WIDTH = 46;
const NAMED_HEIGHT = 15;
/** Pixels of a band from which it bears a name. */
const NAMED_BAND = 9;
const LETTER = 0.58;
const SLANT = 4;

interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** The fill of a node. */
export function fill(look: Look, { colours, byGang }: Pick<Scene, "colours" | "byGang">): string {
  if (look.lit) return colours.lit;
  if (byGang) return colours.gangs[look.gangs[0] ?? -1] ?? colours.fills[0] ?? "";
  return colours.fills[Math.round(look.taken * STEPS)] ?? "";
}

export class Painter {
  readonly #width: number;
  readonly #height: number;

  constructor(
    readonly context: CanvasRenderingContext2D,
    readonly scene: Scene,
    readonly moved: Moved,
  ) {
    const ratio = devicePixelRatio || 1;
    this.#width = context.canvas.width / ratio;
    this.#height = context.canvas.height / ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
  }

  paint(): void {
    this.context.fillStyle = this.scene.colours.page;
    this.context.fillRect(0, 0, this.#width, this.#height);
    this.#domain(this.scene.root);
    for (const [color, nodes] of this.scene.nodes) this.#fill(color, nodes);
    this.#marks();
    for (const each of this.scene.lit) this.#frame(each);
    for (const [domain, text] of this.scene.told) this.#lit(domain, text);
  }

  /** Where something lies on the canvas, on whole pixels; undefined where it is not seen. */
  #box(each: Laid): Box | undefined {
    const { x, y, k } = this.moved;
    const [left, top] = [Math.round(each.x0 * k + x), Math.round(each.y0 * k + y)];
    const [right, bottom] = [Math.round(each.x1 * k + x), Math.round(each.y1 * k + y)];
    if (right <= 0 || bottom <= 0 || left >= this.#width || top >= this.#height) return undefined;
    return { x: left, y: top, w: Math.max(1, right - left), h: Math.max(1, bottom - top) };
  }

  /** A node's own part of that: beside its neighbours there is a gap, where there is room for one. */
  #cell(each: Laid): Box | undefined {
    const box = this.#box(each);
    if (!box || box.w < MARKED || box.h < MARKED) return box;
    return { ...box, w: box.w - 1, h: box.h - 1 };
  }

  /** Domains as areas with their names; what is inside is drawn upon them. */
  #domain(domain: Laid): void {
    const box = this.#box(domain);
    if (!box || !domain.children) return;
    if (domain.depth) {
      const deepest = !domain.children[0]?.children;
      this.context.fillStyle = deepest ? this.scene.colours.edge : this.scene.colours.band;
      this.context.fillRect(box.x, box.y, box.w, box.h);
      this.#title(domain, box, domain.data.name);
    }
    for (const each of domain.children) this.#domain(each);
  }

  #title(domain: Laid, box: Box, text: string): void {
    const height = band(domain) * this.moved.k;
    if (height < NAMED_BAND) return;
    const size = Math.min(12, height - 1);
    this.context.fillStyle = this.scene.colours.text;
    this.#text(text, box.x + 3, box.y + Math.min(height, 24) / 2 + 1, size, box.w - 6);
  }

  /** A line of text, the end of it left out where there is no room. */
  #text(text: string, x: number, y: number, size: number, room: number): void {
    const letters = Math.floor(room / (size * LETTER));
    if (letters < 2) return;
    this.context.font = `${size}px system-ui, sans-serif`;
    this.context.fillText(text.length <= letters ? text : `${text.slice(0, letters - 1)}…`, x, y);
  }

  #fill(color: string, nodes: Shown[]): void {
    this.context.fillStyle = color;
    for (const { laid } of nodes) {
      const cell = this.#cell(laid);
      if (cell) this.context.fillRect(cell.x, cell.y, cell.w, cell.h);
    }
  }

  /** What nodes show beside their fill. */
  #marks(): void {
    for (const nodes of this.scene.nodes.values())
      for (const { laid, look } of nodes) {
        const cell = this.#cell(laid);
        if (!cell || cell.w < MARKED - 1 || cell.h < MARKED - 1) continue;
        if (look.held || look.leaving) this.#hatches(cell, look);
        if (look.gangs.length) this.#gangs(cell, look);
        if (look.closed) this.#cross(cell);
        if (cell.w >= NAMED_WIDTH && cell.h >= NAMED_HEIGHT) this.#name(laid.data.name, cell, look);
      }
  }

  /** Room that is held leans to the right, room to come to the left; each as wide as its share, where there is room. */
  #hatches(cell: Box, { held, leaving }: Look): void {
    const shares = cell.w < HATCHED ? [held && 1, leaving && 1] : [held, leaving];
    let right = cell.x + cell.w;
    shares.forEach((share, at) => {
      if (!share) return;
      const width = Math.min(right - cell.x, Math.max(3, Math.round(cell.w * share)));
      this.#hatch({ ...cell, x: right - width, w: width }, at === 0);
      if (cell.w >= HATCHED) right -= width;
    });
  }

  #hatch(box: Box, rising: boolean): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    context.beginPath();
    for (let at = -box.h; at < box.w; at += SLANT) {
      context.moveTo(box.x + at, rising ? box.y + box.h : box.y);
      context.lineTo(box.x + at + box.h, rising ? box.y : box.y + box.h);
    }
    context.strokeStyle = this.scene.colours.text;
    context.lineWidth = 1;
    context.stroke();
    context.restore();
  }

  /** The colours of the gangs there, along the lower edge; the whole node where the picture is of gangs. */
  #gangs(cell: Box, look: Look): void {
    const { byGang, colours } = this.scene;
    if (byGang && look.gangs.length === 1) return;
    const whole = byGang && !look.lit;
    if (look.lit && cell.h < HATCHED) return;
    const height = whole ? cell.h : Math.max(2, Math.min(6, Math.round(cell.h / 4)));
    const width = cell.w / look.gangs.length;
    look.gangs.forEach((gang, at) => {
      const [left, right] = [Math.round(cell.x + at * width), Math.round(cell.x + (at + 1) * width)];
      this.context.fillStyle = colours.gangs[gang] ?? "";
      this.context.fillRect(left, cell.y + cell.h - height, right - left, height);
    });
  }

  /** A node is seen however small it is. */
  #frame(node: Laid): void {
    const cell = this.#cell(node);
    if (!cell) return;
    const { context, scene } = this;
    const [w, h] = [Math.max(cell.w, MARKED), Math.max(cell.h, MARKED)];
    context.strokeStyle = scene.colours.text;
    context.lineWidth = 1;
    context.strokeRect(cell.x - 0.5, cell.y - 0.5, w + 1, h + 1);
  }

  #cross(cell: Box): void {
    const { context } = this;
    context.beginPath();
    context.moveTo(cell.x, cell.y);
    context.lineTo(cell.x + cell.w, cell.y + cell.h);
    context.moveTo(cell.x + cell.w, cell.y);
    context.lineTo(cell.x, cell.y + cell.h);
    context.strokeStyle = this.scene.colours.text;
    context.lineWidth = 1;
    context.stroke();
  }

  #name(name: string, cell: Box, look: Look): void {
    const { byGang, colours } = this.scene;
    this.context.fillStyle = byGang && look.gangs.length && !look.lit ? colours.onGangs : colours.text;
    this.#text(name, cell.x + 3, cell.y + cell.h / 2, 11, cell.w - 6);
  }

  /** A domain of which something is to be said: framed, and told in its band. */
  #lit(domain: Laid, text: string): void {
    const box = this.#box(domain);
    if (!box) return;
    const { context, scene } = this;
    const height = Math.max(3, Math.round(band(domain) * this.moved.k));
    context.fillStyle = context.strokeStyle = scene.colours.near;
    context.fillRect(box.x, box.y, box.w, height);
    context.lineWidth = 4;
    context.strokeRect(box.x + 2, box.y + 2, Math.max(1, box.w - 4), Math.max(1, box.h - 4));
    this.#title(domain, box, `${domain.data.name}: ${text}`);
  }
}
