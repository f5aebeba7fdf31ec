// Opens a page as one who has just come, and prints when it was drawn, what that took, and how smoothly it zooms.
// TOKEN=… node opened.mjs ADDRESS PICTURE

import { barriers, drawn, filled, frames, launched, pictured, watch, working } from "./browser.mjs";

const [address, picture] = process.argv.slice(2);
const seen = { errors: [], elsewhere: [] };
const browser = await launched();
try {
  const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 }, colorScheme: "light", extraHTTPHeaders: headers });
  watch(page, new URL(address).host, seen);
  const spent = await working(page);
  const before = await spent();
  await page.goto(address);
  seen.drawn = await drawn(page);
  const opened = await spent();
  seen.opening = { script: opened.script - before.script, tasks: opened.tasks - before.tasks };
  seen.steps = await page.evaluate(() => {
    const [opened] = performance.getEntriesByType("navigation");
    const steps = { page: [opened.requestStart, opened.responseEnd, opened.encodedBodySize, opened.decodedBodySize] };
    for (const each of performance.getEntriesByType("resource")) {
      const name = new URL(each.name).pathname;
      steps[name] ??= [each.requestStart, each.responseEnd, each.encodedBodySize, each.decodedBodySize];
    }
    return steps;
  });
  await page.waitForTimeout(1000);
  seen.filled = await filled(page);
  const still = await spent();
  seen.frames = await frames(page);
  const zoomed = await spent();
  seen.frames.script = (zoomed.script - still.script) / seen.frames.count;
  seen.frames.tasks = (zoomed.tasks - still.tasks) / seen.frames.count;
  seen.barriers = await barriers(page);
  await pictured(page, picture, 8);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
