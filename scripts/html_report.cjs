// Opens pages in headless Chromium: see scripts/html_report.
"use strict";

const fs = require("fs");
const path = require("path");
const { pathToFileURL } = require("url");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const { pages, folder, limit, many, browser: program, profile, hostile } = JSON.parse(process.argv[2]);
const widths = [390, 1280];
const schemes = ["light", "dark"];
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const defects = [];

// Takes a picture of the whole page. The window grows for it: parts that are out of sight are not drawn.
const picture = async (page, name, width, most) => {
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width, height: Math.min(height, most) });
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.screenshot({ path: path.join(folder, `${name}.png`) });
  await page.setViewportSize({ width, height: 900 });
};

// Opens what is folded, so that it is checked, too.
const unfold = async (page) => {
  for (const summary of await page.locator("details.more > summary").all()) await summary.click();
  const sessions = page.locator("details.session > summary");
  for (let at = 0; at < Math.min(3, await sessions.count()); at += 1) await sessions.nth(at).click();
};

const check = async (context, name, width, scheme) => {
  const where = `${name}, ${width} px, ${scheme}`;
  const page = await context.newPage();
  const url = pathToFileURL(pages[name]).href;
  const fault = (text) => defects.push(`${where}: ${text}`);
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) fault(`console: ${message.text()}`); });
  page.on("pageerror", (error) => fault(`error: ${error.message}`));
  page.on("request", (request) => { if (request.url() !== url) fault(`request: ${request.url()}`); });
  const begun = performance.now();
  await page.goto(url, { waitUntil: "load" });
  if (name === "spend" || name === many) await page.locator("details.session").first().waitFor();
  const took = performance.now() - begun;
  if (name === many) {
    console.log(`${where}: open after ${Math.round(took)} ms`);
    if (took >= limit) fault(`open after ${Math.round(took)} ms`);
  }
  await picture(page, `${name}-${width}-${scheme}`, width, 2_500);
  await unfold(page);
  await picture(page, `${name}-${width}-${scheme}-open`, width, 5_000);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (overflow > 0) fault(`${overflow} px wider than the window`);
  if (name !== many || width === 1280) {
    // The policy of the page permits no other script; the debugger is not bound by it.
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    for (const { id, help, nodes } of found.violations) {
      fault(`axe: ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    }
  }
  if (name === "spend") await checkSessions(page, fault);
  await page.close();
};

const checkSessions = async (page, fault) => {
  await page.locator("#find").fill("bold");
  const summary = page.locator("details.session > summary");
  const count = await summary.count();
  if (count !== 1) return fault(`${count} sessions fit a search for one`);
  await summary.first().focus();
  await page.keyboard.press("Enter");
  const text = await page.locator("details.session").first().innerText();
  if (!text.includes(hostile)) fault(`markup is not shown as text: ${text.slice(0, 300)}`);
  if (await page.locator("b:text-is('bold')").count() > 0) fault("markup of a transcript is markup of the page");
};

(async () => {
  const context = { executablePath: program, args: flags, headless: true };
  for (const scheme of schemes) {
    for (const width of widths) {
      const opened = await chromium.launchPersistentContext(`${profile}-${width}-${scheme}`, {
        ...context, colorScheme: scheme, viewport: { width, height: 900 },
      });
      for (const name of Object.keys(pages)) await check(opened, name, width, scheme);
      if (scheme === "light" && width === 1280) {
        const page = await opened.newPage();
        await page.goto(pathToFileURL(pages.spend).href);
        await page.pdf({ path: path.join(folder, "spend.pdf"), format: "A4", printBackground: false });
        await page.close();
      }
      await opened.close();
    }
  }
  for (const defect of defects) console.error(defect);
  console.log(defects.length === 0 ? "no defects" : `${defects.length} defects`);
  process.exit(defects.length === 0 ? 0 : 1);
})();
