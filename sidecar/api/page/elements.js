/* Elements are made here and nowhere else. Text goes through `inert`, so none of it can be markup. */

import { inert } from "./inert.js";

export const byId = (id) => document.getElementById(id);

/* An element with properties and children; strings among the children become inert text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null).map(
    (child) => (child instanceof Node ? child : inert(String(child)))));
  return made;
}

export function button(label, onclick, properties = {}) {
  return element("button", { type: "button", onclick, ...properties }, label);
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null));
}

/* A button that shows and hides a part, which is made when it is first shown. */
export function disclosure(label, fill, id) {
  const part = element("div", { class: "part", id, hidden: true });
  let filled = false;
  const toggle = button(label, () => {
    const open = part.hidden;
    part.hidden = !open;
    toggle.setAttribute("aria-expanded", String(open));
    if (open && !filled) {
      filled = true;
      Promise.resolve(fill(part)).catch((error) => {
        filled = false;
        replace(part, element("p", { class: "error" }, error.message));
      });
    }
  }, { class: "plain", "aria-expanded": "false", "aria-controls": id });
  return { toggle, part };
}

/* Names and values, one row each; what is undefined is left out. */
export function facts(rows) {
  return element("dl", { class: "facts-list" }, rows.filter(([, value]) => value !== undefined && value !== null).map(
    ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

export function table(headings, rows, label) {
  return element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label },
    element("table", {},
      element("thead", {}, element("tr", {}, headings.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map(
        (cell) => (cell instanceof HTMLTableCellElement ? cell : element("td", {}, cell))))))));
}
