// Uses every choice of the page with a real Chromium: search, menus, topology, resource; and reads details of gangs and
// domains. Prints what it saw as JSON.
// TOKEN=… node choices.mjs ADDRESS

import { crumbs, detail, filled, launched, listed, watch } from "./browser.mjs";

const [address] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
const seen = { errors: [], elsewhere: [] };

/** A point inside of the first and of the last marked rack on the canvas. */
function nearPoints(page) {
  return page.evaluate(() => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--wait-fill)";
    const near = getComputedStyle(probe).color;
    probe.remove();
    const canvas = document.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = [];
    for (let at = 0; at < data.length; at += 4) if (`rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})` === near) found.push(at / 4);
    const point = (at, by) => [(at % canvas.width) / devicePixelRatio + by, Math.floor(at / canvas.width) / devicePixelRatio + by];
    return found.length ? [point(found[0], 5), point(found.at(-1), -5)] : [];
  });
}

const browser = await launched();
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, colorScheme: "light", extraHTTPHeaders: headers });
  watch(page, new URL(address).host, seen);
  await page.goto(address);
  await page.locator(".item[data-gang]").first().waitFor();
  const gang = (name) => page.locator(`.item[data-gang$="${name}"]`);
  const all = async () => ({ gangs: await listed(page), count: await page.locator(".count").textContent() });
  const drawn = () => page.waitForTimeout(400);
  const find = page.getByLabel("Find a gang, node or domain");

  seen.all = await all();
  await page.locator(".menu summary").click();
  await page.getByLabel("Namespace").selectOption("research");
  seen.namespace = await all();
  await page.getByLabel("System").selectOption("koordinator");
  seen.neither = await all();
  await page.getByLabel("Namespace").selectOption("");
  seen.system = await all();
  await page.getByLabel("System").selectOption("");
  await find.fill("Have ONLY");
  seen.words = await all();
  await find.fill("");
  seen.again = await all();

  const counted = page.getByLabel("Picture counts");
  seen.resources = await counted.locator("option").allTextContents();
  const domain = async () => ({
    title: await page.locator("#detail h2").innerText(),
    lead: await page.locator("#detail .lead").innerText(),
    titles: await page.locator("#detail table").first().locator("thead th").allInnerTexts(),
    rows: await page.locator("#detail table").first().locator("tbody tr").allInnerTexts(),
  });
  seen.figures = { fragmentation: await page.locator(".k4").innerText(), sizes: {} };
  for (const size of ["1", "8"]) {
    await page.getByLabel("GPUs of each pod").selectOption(size);
    seen.figures.sizes[size] = await page.locator(".k3 .big").allTextContents();
  }
  await page.getByRole("button", { name: "Table" }).click();
  seen.whole = await domain();
  await page.keyboard.press("Escape");
  await counted.selectOption("nvidia.com/gpu");
  await drawn();
  seen.byGpu = await filled(page, ["used"]);
  await counted.selectOption("cpu");
  await drawn();
  seen.byCpu = { used: await filled(page, ["used"]), title: await page.locator(".k1 h2").innerText() };
  await counted.selectOption("scarcest");
  await drawn();
  seen.byScarcest = await filled(page, ["used"]);
  await counted.selectOption("");
  await page.locator(".menu summary").click();

  await page.getByLabel("Topology").selectOption("power");
  await drawn();
  seen.power = { crumbs: await crumbs(page) };
  await page.getByRole("button", { name: "Table" }).click();
  seen.power.domain = await domain();
  await page.keyboard.press("Escape");
  await drawn();
  const box = await page.locator("canvas").boundingBox();
  await page.mouse.click(box.x + 40, box.y + 25);
  seen.feed = await crumbs(page);
  await page.getByLabel("Topology").selectOption("datacenter");
  seen.back = await crumbs(page);

  await gang("research/urgent").click();
  await page.getByRole("region", { name: "Evicted for it" }).waitFor();
  seen.evicted = await page.getByRole("region", { name: "Evicted for it" }).locator("tr").allInnerTexts();
  await drawn();
  seen.unlit = await nearPoints(page);

  await gang("research/giant").click();
  await page.locator("#detail .nr").first().waitFor();
  seen.never = { lead: await page.locator("#detail .lead").innerText(), detail: await detail(page) };

  seen.near = [];
  for (const at of [0, 1]) {
    await gang("default/big").click();
    await page.locator("#detail .nr").first().waitFor();
    await drawn();
    seen.line ??= await detail(page);
    const area = await page.locator("canvas").boundingBox();
    const point = (await nearPoints(page))[at];
    if (!point) break;
    await page.mouse.click(area.x + point[0], area.y + point[1]);
    seen.near.push(await crumbs(page));
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
