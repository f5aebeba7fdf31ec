// Uses every choice of the page with a real Chromium: filters, topology, resource; and reads what a gang's story and a
// domain tell. Prints what it saw as JSON.
// TOKEN=… node choices.mjs ADDRESS

import { filled, launched, watch } from "./browser.mjs";

const [address] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
const seen = { errors: [], elsewhere: [] };

/** The first and the last point of the canvas that has the colour of domains that nearly hold the gang. */
function nearPoints(page) {
  return page.evaluate(() => {
    const near = getComputedStyle(document.documentElement).getPropertyValue("--near").trim();
    const canvas = document.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const hex = (value) => value.toString(16).padStart(2, "0");
    const found = [];
    for (let at = 0; at < data.length; at += 4)
      if (`#${hex(data[at])}${hex(data[at + 1])}${hex(data[at + 2])}` === near) found.push(at / 4);
    const point = (at) => [(at % canvas.width) / devicePixelRatio, Math.floor(at / canvas.width) / devicePixelRatio];
    return found.length ? [point(found[0]), point(found.at(-1))] : [];
  });
}

const browser = await launched();
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 }, colorScheme: "light", extraHTTPHeaders: headers });
  watch(page, new URL(address).host, seen);
  await page.goto(address);
  await page.locator(".gangs button").first().waitFor();
  const [gangs, crumbs] = [page.locator(".gangs button"), page.locator(".crumbs button")];
  const listed = async () => ({ gangs: await gangs.allTextContents(), count: await page.locator(".count").textContent() });
  const drawn = () => page.waitForTimeout(300);

  seen.all = await listed();
  await page.getByLabel("Namespace").selectOption("research");
  seen.namespace = await listed();
  await page.getByLabel("System").selectOption("koordinator");
  seen.neither = await listed();
  await page.getByLabel("Namespace").selectOption("");
  seen.system = await listed();
  await page.getByLabel("System").selectOption("");
  await page.getByLabel("Gangs with").fill("Have ONLY");
  seen.words = await listed();
  await page.getByLabel("Gangs with").fill("");
  seen.again = await listed();

  seen.resources = await page.getByLabel("Fuller by").locator("option").allTextContents();
  const shades = async () => ({ some: await filled(page, ["fill-1"]), full: await filled(page, ["fill-5"]) });
  const domain = async () => ({
    title: await page.locator(".domain h3").innerText(),
    sentences: await page.locator(".domain p").allInnerTexts(),
    titles: await page.locator(".domain thead th").allInnerTexts(),
    rows: await page.locator(".domain tbody tr").allInnerTexts(),
  });
  seen.whole = await domain();
  await page.getByLabel("Fuller by").selectOption("nvidia.com/gpu");
  await drawn();
  seen.byGpu = await shades();
  await page.getByLabel("Fuller by").selectOption("cpu");
  await drawn();
  seen.byCpu = { ...(await shades()), domain: await domain() };
  await page.getByLabel("Fuller by").selectOption("");

  await page.getByLabel("Topology").selectOption("power");
  await drawn();
  seen.power = { crumbs: await crumbs.allTextContents(), domain: await domain() };
  const box = await page.locator("canvas").boundingBox();
  await page.mouse.click(box.x + 20, box.y + 12);
  seen.feed = await crumbs.allTextContents();
  await page.getByLabel("Topology").selectOption("datacenter");
  seen.back = await crumbs.allTextContents();

  await gangs.filter({ hasText: "research/urgent" }).click();
  await page.locator(".story h3", { hasText: "research/urgent" }).waitFor();
  seen.evicted = await page.getByRole("region", { name: "Evicted for it" }).locator("tr").allInnerTexts();
  await drawn();
  seen.unlit = await nearPoints(page);

  await gangs.filter({ hasText: "default/big" }).click();
  await page.locator(".story h3", { hasText: "default/big" }).waitFor();
  seen.line = await page.locator(".story dl").innerText();
  await drawn();
  const points = await nearPoints(page);
  seen.near = [];
  for (const [x, y] of points) {
    await page.mouse.click(box.x + x, box.y + y);
    seen.near.push(await crumbs.allTextContents());
    await crumbs.first().click();
    await drawn();
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
