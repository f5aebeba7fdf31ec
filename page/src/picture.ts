// The picture of the cluster on a canvas: drawing, zooming, pointer and keyboard.

import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, zoomTransform } from "d3-zoom";

import { colours, type Colours } from "./colours";
import { at, type Layout, laidOut } from "./layout";
import { Painter, type Scene, Sprites } from "./painting";
import { pathKey, type Place } from "./tree";

export type View = Omit<Scene, "layout" | "colours" | "focus"> & {
  root: Place;
  /** The least height of a node in pixels. A small screen scrolls the picture. */
  least: number;
};

const FARTHEST = 40;

export class Picture {
  readonly #zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  readonly #sprites = new Sprites();
  #view: View | undefined;
  #layout: Layout | undefined;
  #made: { root: Place; key: string } | undefined;
  #colours: Colours | undefined;
  #stops: Place[] = [];
  #focus = -1;
  #frame = 0;
  #painted = false;

  /** `open`: called with the path of a domain or node that the user chooses; `tell`: with what the pointer is over;
   * `reach`: with the domain that the keyboard has reached. */
  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly open: (path: readonly string[]) => void,
    readonly tell: (place: Place | undefined, event: PointerEvent) => void,
    readonly reach: (place: Place) => void,
  ) {
    this.#zoom = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, FARTHEST])
      .filter((event: Event) => this.#takes(event))
      .on("zoom", () => this.#changed());
    select(canvas).call(this.#zoom).on("dblclick.zoom", null);
    canvas.addEventListener("click", (event) => {
      const found = this.#under(event);
      if (found?.path.length) open(found.path);
    });
    canvas.addEventListener("pointermove", (event) => tell(this.#under(event), event));
    canvas.addEventListener("pointerleave", (event) => tell(undefined, event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => this.#reached(-1));
  }

  /** One finger scrolls the page while the whole picture is seen. */
  #takes(event: Event): boolean {
    if (event instanceof MouseEvent && event.button) return false;
    const alone = "touches" in event && (event as TouchEvent).touches.length < 2;
    return !(alone && zoomTransform(this.canvas).k === 1);
  }

  /** The colours of the page have changed. */
  recolour(): void {
    this.#colours = undefined;
    if (this.#view) this.draw(this.#view);
  }

  draw(view: View): void {
    const area = this.canvas.parentElement;
    const [width, height] = [area?.clientWidth ?? 0, area?.clientHeight ?? 0];
    if (!width || !height) return;
    const key = [pathKey(view.root.path), width, height, view.least].join(" ");
    if (this.#made?.root !== view.root || this.#made.key !== key) {
      const other = !this.#made || pathKey(this.#made.root.path) !== pathKey(view.root.path);
      this.#layout = laidOut(view.root, width, height, view.least);
      this.#made = { root: view.root, key };
      this.#size(width, Math.max(height, Math.ceil(this.#layout.height)));
      this.#stops = this.#layout.panels.flatMap((panel) => [...(panel.framed ? [panel.place] : []), ...panel.rows.map((row) => row.place)]);
      if (this.#stops.length === 1) this.#stops = this.#layout.panels.flatMap((panel) => panel.rows.flatMap((row) => row.cells.map((cell) => cell.place)));
      if (other) {
        this.#focus = -1;
        select(this.canvas).call(this.#zoom.transform, zoomIdentity);
      }
    }
    this.#view = view;
    this.#colours ??= colours();
    this.#sprites.clear();
    this.#changed();
  }

  #size(width: number, height: number): void {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    this.#zoom.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
  }

  #changed(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const context = this.canvas.getContext("2d", { alpha: false });
      if (!context || !this.#view || !this.#layout || !this.#colours) return;
      const reached = this.#stops[this.#focus];
      const scene = { ...this.#view, layout: this.#layout, colours: this.#colours, focus: reached ? pathKey(reached.path) : "" };
      new Painter(context, scene, zoomTransform(this.canvas), this.#sprites).paint();
      if (!this.#painted) performance.mark("picture"); // "first picture" in a browser's performance tools
      this.#painted = true;
    });
  }

  #under(event: MouseEvent): Place | undefined {
    const [x, y] = zoomTransform(this.canvas).invert([event.offsetX, event.offsetY]);
    return this.#layout && at(this.#layout, x, y);
  }

  /** Arrows go from domain to domain, Enter opens, Backspace goes one level up. */
  #key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.#reached(Math.min(this.#stops.length - 1, Math.max(0, this.#focus + step)));
    } else if (event.key === "Enter" && this.#stops[this.#focus]) this.open(this.#stops[this.#focus]?.path ?? []);
    else if (event.key === "Backspace") this.open(this.#view?.root.path.slice(0, -1) ?? []);
  }

  #reached(to: number): void {
    if (this.#focus === to) return;
    this.#focus = to;
    const place = this.#stops[to];
    if (place) this.reach(place);
    this.#changed();
  }
}
