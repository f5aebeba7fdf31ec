// A real Chromium, and what every look at the page has to hold: no error, nothing from elsewhere, no barrier.

import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";

import bundled from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const TURNS = 40;

export async function launched() {
  return chromium.launch({ executablePath: await bundled.executablePath(), args: ["--no-sandbox", "--no-zygote"], headless: true });
}

/** Note what goes wrong on a page, and what it asks for that is not at `host`. */
export function watch(page, host, seen) {
  page.on("console", (message) => {
    if (message.type() === "error") seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== host) seen.elsewhere.push(request.url());
  });
}

/** Faults for people who cannot see or use a mouse. The policy lets no foreign script in: axe is evaluated. */
export async function barriers(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map((each) => `${each.id} (${each.impact}): ${each.nodes.map((node) => node.html).join(" ").slice(0, 500)}`);
}

/** Put a picture of the page into a file (WebP). Return its size in bytes. `quality`: 0 to 100. */
export async function pictured(page, file, quality = 25) {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality });
  const picture = Buffer.from(data, "base64");
  await writeFile(file, picture);
  return picture.length;
}

/** How many colours there are on the canvas, of every seventh point: what has been drawn there. */
export function colours(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let at = 0; at < data.length; at += 28) found.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
    return found.size;
  });
}

/** Milliseconds from frame to frame while the wheel turns over the picture, all the time: in, and out again. */
export async function frames(page) {
  const box = await page.locator("canvas").first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.evaluate(() => {
    globalThis.times = [];
    const step = (now) => {
      if (globalThis.times) requestAnimationFrame(step);
      globalThis.times?.push(now);
    };
    requestAnimationFrame(step);
  });
  for (let turn = 0; turn < 2 * TURNS; turn += 1) await page.mouse.wheel(0, turn < TURNS ? -60 : 60);
  const times = await page.evaluate(() => {
    const { times } = globalThis;
    globalThis.times = undefined;
    return times;
  });
  const gaps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b);
  const rate = (1000 * gaps.length) / (times.at(-1) - times[0]);
  return { count: times.length, rate, median: gaps[gaps.length >> 1], late: gaps[Math.floor(gaps.length * 0.95)], worst: gaps.at(-1) };
}

/** Begin to count what the page's main thread does, in processor time, which a busy machine does not stretch. Returns a
 * function to the milliseconds until now: of script alone, and of all tasks, with style, layout and drawing. */
export async function working(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const seconds = Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
    return { script: 1000 * seconds.ScriptDuration, tasks: 1000 * seconds.TaskDuration };
  };
}

/** Milliseconds from when a page was asked for to when its first picture was painted, by the page's own mark. */
export async function drawn(page) {
  await page.waitForFunction(() => performance.getEntriesByName("picture").length, undefined, { timeout: 60_000 });
  return page.evaluate(() => performance.getEntriesByName("picture")[0].startTime);
}

/** Colours of the style sheet with which nodes are drawn. */
const OF_NODES = [
  ...["used", "used-far", "free", "line", "accent", "accent-soft", "go", "out", "wait-fill"],
  ...Array.from({ length: 6 }, (_, step) => `fill-${step}`),
];

/** The points of the canvas that have one of these colours of the style sheet, as a share of every seventh point. */
export function filled(page, names = OF_NODES) {
  return page.evaluate((names) => {
    const probe = document.body.appendChild(document.createElement("i"));
    const fills = new Set(
      names.map((name) => {
        probe.style.color = `var(--${name})`;
        return getComputedStyle(probe).color;
      }),
    );
    probe.remove();
    const canvas = document.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let [found, all] = [0, 0];
    for (let at = 0; at < data.length; at += 28, all += 1) if (fills.has(`rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`)) found += 1;
    return found / all;
  }, names);
}

/** The gangs of the list, each with its phase as the page shows it. */
export function listed(page) {
  return page.locator(".item[data-gang]").evaluateAll((items) =>
    items.map((item) => `${item.dataset.gang.split("/").slice(1).join("/")} ${item.querySelector(".t2 b").textContent}`),
  );
}

/** The text of the detail, with what is folded. */
export async function detail(page) {
  await page.locator("#detail").evaluate((detail) => detail.querySelectorAll("details").forEach((fold) => (fold.open = true)));
  return page.locator("#detail").innerText();
}

/** The path of the picture. */
export function crumbs(page) {
  return page.locator(".crumbs button").allTextContents();
}
