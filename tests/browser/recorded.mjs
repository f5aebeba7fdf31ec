// Looks at a picture in a file, as it opens without any server, and prints what it saw as JSON.
// node recorded.mjs FILE FOLDER-FOR-SCREENSHOTS

import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { barriers, colours, detail, drawn, filled, frames, launched, listed, watch } from "./browser.mjs";

const [file, folder] = process.argv.slice(2);
const address = pathToFileURL(file).href;
const seen = { errors: [], elsewhere: [] };
const browser = await launched();
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 }, colorScheme: "light" });
  page.on("request", (request) => {
    if (request.url() !== address) seen.elsewhere.push(request.url());
  });
  watch(page, "", { errors: seen.errors, elsewhere: [] });
  await page.goto(address);
  seen.drawn = await drawn(page);
  await page.waitForTimeout(1000);
  seen.colours = await colours(page);
  seen.filled = await filled(page);
  seen.gangs = await listed(page);
  await page.locator(".item[data-gang]").first().click();
  seen.story = await detail(page);
  seen.frames = await frames(page);
  seen.trying = await page.getByRole("button", { name: "Try it" }).count();
  seen.barriers = await barriers(page);
  await page.screenshot({ path: join(folder, "recorded.png") });
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
