// Opens the queues and the ended gangs by their links with a real Chromium. Prints what it saw as JSON.
// TOKEN=… node screens.mjs ADDRESS FOLDER-FOR-SCREENSHOTS

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { barriers, launched, watch } from "./browser.mjs";

const [address, folder] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
const seen = { errors: [], elsewhere: [], wide: {} };
const browser = await launched();
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, colorScheme: "dark", extraHTTPHeaders: headers });
  watch(page, new URL(address).host, seen);
  /** Whether something is wider than the window. */
  const wide = () => page.evaluate(() => document.querySelector(".page").scrollWidth > document.querySelector(".page").clientWidth);
  const looked = async (name) => {
    seen.wide[name] = await wide();
  };

  await page.goto(`${address}?view=queues`);
  await page.locator(".tiles").waitFor();
  seen.tiles = await page.locator(".tiles .big").allInnerTexts();
  seen.rows = await page.locator("section.qrow").allInnerTexts();
  seen.bars = await page.locator(".qbar").evaluateAll((bars) => bars.map((bar) => bar.getAttribute("aria-label")));
  seen.barriers = await barriers(page);
  await looked("queues");
  await page.locator(".line button").first().click();
  seen.opened = new URL(page.url()).search;
  const quota = page.locator("#detail .sec", { has: page.locator("h3", { hasText: "Quota of b" }) });
  await quota.waitFor();
  seen.quota = await quota.innerText();
  seen.detailBarriers = await barriers(page);
  await page.goBack();
  await page.locator(".tiles").waitFor();
  await page.getByRole("button", { name: "Show its gangs" }).last().click();
  seen.listed = await page.locator(".item .t1").allInnerTexts();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator(".bottom").getByRole("button", { name: "Queues" }).click();
  await page.locator(".tiles").waitFor();
  await looked("queues-phone");

  await page.goto(`${address}?view=history`);
  await page.locator(".hist").waitFor();
  await looked("history-phone");
  await page.setViewportSize({ width: 1400, height: 900 });
  seen.ended = await page.locator(".hist tbody tr").allInnerTexts();
  seen.endedTiles = await page.locator(".tiles .big").allInnerTexts();
  seen.endedBarriers = await barriers(page);
  await looked("history");
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const saved = join(folder, "history.csv");
  await (await downloading).saveAs(saved);
  seen.csv = (await readFile(saved, "utf8")).split("\n")[1];
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
