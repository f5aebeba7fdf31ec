// Looks at the page with a real Chromium, as a person would, and prints what it saw as JSON.
// TOKEN=… node look.mjs ADDRESS [FOLDER for screenshots]

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

import bundled from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const [address, folder] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
const host = new URL(address).host;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const seen = { errors: [], elsewhere: [] };

function watch(page) {
  page.on("console", (message) => {
    if (message.type() === "error") seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== host) seen.elsewhere.push(request.url());
  });
}

async function pictured(page, name) {
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** How many colours there are on the canvas, of every seventh point: what has been drawn there. */
function colours(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let at = 0; at < data.length; at += 28) found.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
    return found.size;
  });
}

/** Serious faults for people who cannot see or use a mouse. The policy lets no foreign script in: axe is evaluated. */
async function barriers(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ").slice(0, 500)}`);
}

async function frames(page) {
  const box = await page.locator("canvas").first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const measured = page.evaluate(
    () =>
      new Promise((done) => {
        const times = [];
        const step = (now) => (times.push(now) < 60 ? requestAnimationFrame(step) : done(times));
        requestAnimationFrame(step);
      }),
  );
  for (let turn = 0; turn < 10; turn += 1) await page.mouse.wheel(0, turn < 5 ? -120 : 120);
  const times = await measured;
  const gaps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b);
  return { median: gaps[gaps.length >> 1], worst: gaps.at(-1) };
}

const browser = await chromium.launch({ executablePath: await bundled.executablePath(), args: ["--no-sandbox", "--no-zygote"], headless: true });
try {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, colorScheme: "light", extraHTTPHeaders: headers });
  const page = await context.newPage();
  watch(page);
  const begun = Date.now();
  await page.goto(address);
  await page.locator("canvas").first().waitFor();
  seen.drawn = Date.now() - begun;
  await page.waitForTimeout(1500);
  seen.colours = await colours(page);
  await pictured(page, "light");
  seen.gangs = await page.locator(".gangs button").allTextContents();
  await page.locator(".gangs button").first().click();
  seen.pressed = await page.locator('.gangs button[aria-pressed="true"]').count();
  seen.said = await page.locator("[aria-live]").textContent();
  seen.rows = await page.locator("details tbody tr th").allTextContents();
  await page.waitForTimeout(1500);
  await pictured(page, "lit");
  seen.barriers = await barriers(page);
  seen.frames = await frames(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForTimeout(1500);
  seen.darkColours = await colours(page);
  seen.darkBarriers = await barriers(page);
  await pictured(page, "dark");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForTimeout(1000);
  seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  await pictured(page, "phone");
  const plain = await browser.newContext({ javaScriptEnabled: false, extraHTTPHeaders: headers });
  const unscripted = await plain.newPage();
  await unscripted.goto(address);
  seen.withoutScript = await unscripted.locator("h2").allTextContents();
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
