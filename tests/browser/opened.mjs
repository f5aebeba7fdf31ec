// Opens a page as one who has just come, and prints when it was drawn, what that took, and how smoothly it zooms.
// TOKEN=… node opened.mjs ADDRESS FOLDER-FOR-SCREENSHOTS

import { join } from "node:path";

import { drawn, filled, frames, launched, pictured, watch, whenDrawn } from "./browser.mjs";

const [address, folder] = process.argv.slice(2);
const seen = { errors: [], elsewhere: [] };
const browser = await launched();
try {
  const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 }, colorScheme: "light", extraHTTPHeaders: headers });
  watch(page, new URL(address).host, seen);
  await whenDrawn(page);
  await page.goto(address);
  seen.drawn = await drawn(page);
  seen.steps = await page.evaluate(() => {
    const [opened] = performance.getEntriesByType("navigation");
    const steps = { page: [opened.requestStart, opened.responseEnd] };
    for (const each of performance.getEntriesByType("resource")) {
      const name = new URL(each.name).pathname;
      steps[name] ??= [each.requestStart, each.responseEnd, each.encodedBodySize, each.decodedBodySize];
    }
    return steps;
  });
  await page.waitForTimeout(1000);
  seen.filled = await filled(page);
  seen.frames = await frames(page);
  await pictured(page, join(folder, "15246-nodes.webp"), 8);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
