"use strict";
const ui = (() => {
  const byId = (id) => document.getElementById(id);
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const SVG = "http://www.w3.org/2000/svg";
  const draw = (tag, attributes = {}, ...children) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

  /* Code colouring: text is only ever split into text nodes. */
  const TOKEN = /(\/\/.*|\/\*.*?\*\/)|(%[\w.$]+|\b(?:U?R\d+|U?RZ|U?P\d|U?PT)\b)|(^\s*(?:\/\*[0-9a-f]+\*\/\s*)?(?:@!?[%\w]+\s+)?)([A-Za-z_][\w.]*(?:::[\w.]+)*)|(\s\.[a-z]\w*(?:\.\w+)*)|\b(0x[0-9a-fA-F]+|\d+)\b/g;
  const LONGEST = 2000;
  const colour = (element, text) => {
    element.textContent = "";
    const shown = text.length > LONGEST ? text.slice(0, LONGEST) + " …" : text;
    let last = 0;
    const put = (kind, value) => value && element.append(kind ? make("span", { className: kind, textContent: value }) : value);
    for (const match of shown.matchAll(TOKEN)) {
      put("", shown.slice(last, match.index));
      const [whole, comment, register, before, opcode, directive, number] = match;
      if (opcode) {
        put("", before);
        put(shown[match.index + whole.length] === ":" ? "" : "tok-op", opcode);
      } else put(comment ? "tok-com" : register ? "tok-reg" : directive ? "tok-dir" : number ? "tok-num" : "", whole);
      last = match.index + whole.length;
    }
    put("", shown.slice(last));
  };
  return { byId, make, draw, count, colour };
})();
