"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const read = (id) => { const data = byId(id); return data ? JSON.parse(data.textContent) : null; };
  const { clients, projects, models } = read("names");
  // One array per column, in the order of cost.
  const index = read("index");
  const page = 50;
  const number = (count) => count.toLocaleString("en-US");

  const element = (name, className, ...content) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...content.filter((part) => part !== "" && part !== null));
    return made;
  };
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const bar = (share, className) => {
    const made = svg("svg", { class: "bar " + className, viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" });
    made.append(svg("rect", { class: "track", width: 100, height: 6, rx: 1 }), svg("rect", { class: "fill", width: share, height: 6, rx: 1 }));
    return made;
  };

  const text = (title, content) => {
    const pre = element("pre", "text", content || element("em", "", "nothing"));
    return element("div", "", element("h4", "", title), pre);
  };
  const broken = ({ cause, tokens, cost, place, before, after, remedy }) => {
    const made = element("div", "broken", element("h3", "", "Sent again: " + cause));
    const costs = cost ? ", " + cost + " more than reading them" : "";
    made.append(element("p", "", number(tokens) + " tokens that the provider had in its cache" + costs + "."));
    if (place) made.append(element("p", "small", "First difference: " + place));
    if (before || after) made.append(element("div", "texts", text("before", before), text("after", after)));
    if (remedy) made.append(element("p", "small", remedy));
    return made;
  };
  const turn = ([time, model, agent, cost, share, input, cached, written, output, tools, pause, isCold, jump, loss]) => {
    const parts = [];
    if (pause) parts.push(element("li", isCold ? "pause cold" : "pause", pause));
    const who = element("span", "", models[model] || "unknown model");
    if (agent) who.append(" ", element("span", "tag", "sub-agent " + agent));
    const facts = ["input " + number(input)];
    if (cached) facts.push("read from cache " + number(cached));
    if (written) facts.push("written to cache " + number(written));
    facts.push("output " + number(output));
    if (tools) facts.push("called " + tools);
    const made = element("li", "turn", element("time", "mono", time), who, bar(share, loss ? "bad" : ""), element("span", "number", cost));
    made.append(element("span", "facts", facts.join(" · ")));
    if (jump) made.append(element("span", "facts jump", "cost jumped by " + jump));
    if (loss) made.append(broken(loss));
    parts.push(made);
    return parts;
  };
  const fill = (details, at) => {
    const turns = read("t" + at);
    if (!turns || turns.length === 0) {
      details.append(element("p", "none small", "The answers of this session are left out of the report: cachalot spend --session " + index.id[at]));
      return;
    }
    details.append(element("ol", "turns", ...turns.flatMap(turn)));
  };
  const session = (at) => {
    const project = projects[index.project[at]] || "no project";
    const what = element("span", "what", index.title[at] || project);
    const names = [clients[index.client[at]] + " " + index.id[at]];
    if (index.title[at]) names.unshift(project);
    what.append(element("span", "id", names.join(" · ")));
    const cost = element("span", "number cost", index.cost[at], bar(index.share[at], ""));
    const answers = index.answers[at];
    const summary = element("summary", "", element("span", "when", index.time[at]), what,
      element("span", "answers number", number(answers) + (answers === 1 ? " answer" : " answers")),
      element("span", "lost number", index.lost[at] ? index.lost[at] + " again" : ""), cost);
    const details = element("details", "session", summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) fill(details, at);
    });
    return element("li", "", details);
  };

  const list = byId("list"), more = byId("more"), find = byId("find"), order = byId("order"), found = byId("found");
  const all = index.id.map((_, at) => at);
  let chosen = all, shown = 0;
  const show = () => {
    list.append(...chosen.slice(shown, shown + page).map(session));
    shown = Math.min(shown + page, chosen.length);
    more.hidden = shown === chosen.length;
    const sessions = chosen.length === 1 ? "1 session" : number(chosen.length) + " sessions";
    found.textContent = shown < chosen.length ? sessions + ", the first " + number(shown) + " shown" : sessions;
  };
  const choose = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter((word) => word);
    const matches = (at) => {
      const names = [index.id[at], index.title[at], projects[index.project[at]], clients[index.client[at]], ...index.models[at].map((model) => models[model])];
      const line = names.join("\n").toLowerCase();
      return words.every((word) => line.includes(word));
    };
    chosen = words.length ? all.filter(matches) : all.slice();
    const by = { time: index.at, lost: index.lostCost }[order.value];
    if (by) chosen.sort((one, other) => by[other] - by[one]);
    shown = 0;
    list.replaceChildren();
    show();
  };
  find.addEventListener("input", choose);
  order.addEventListener("change", choose);
  more.addEventListener("click", () => {
    const next = shown;
    show();
    // The button may be gone: the focus stays at the first new session.
    list.children[next]?.querySelector("summary").focus();
  });
  byId("controls").hidden = false;
  show();
})();
