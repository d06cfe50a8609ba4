// Measures a page, in a frame that the test makes, and writes what is wrong to the frame's
// parent: text of a figure that collides or leaves it, empty figures, a page that scrolls
// sideways, text of too little contrast (WCAG 2.1, 1.4.3), long text in a narrow column, and names that a screen reader lacks.
addEventListener("load", () => {
  const bad = [];
  document.querySelectorAll("details").forEach(d => d.open = true);
  document.querySelectorAll("figure svg, svg.strip").forEach((svg, i) => {
    const frame = svg.getBoundingClientRect();
    if (!svg.querySelector("path[d], circle, rect") || frame.height < 20) bad.push("figure " + i + " is empty");
    const texts = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim())
      .map(t => ({ s: t.textContent, r: t.getBoundingClientRect() }));
    texts.forEach((a, n) => {
      if (a.r.left < frame.left - 1 || a.r.right > frame.right + 1) bad.push("figure " + i + ": '" + a.s + "' leaves it");
      texts.slice(n + 1).forEach(b => {
        const w = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
        const h = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
        if (w > 1 && h > 3) bad.push("figure " + i + ": '" + a.s + "' on '" + b.s + "'");
      });
    });
  });
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) bad.push("the page scrolls sideways by " + wide + " px");

  document.querySelectorAll("td").forEach(e => {
    const line = parseFloat(getComputedStyle(e).lineHeight), r = e.getBoundingClientRect();
    if (r.width > 0 && r.width < 100 && !e.querySelector("svg") && e.textContent.trim() && e.offsetHeight > 7 * line &&
      [...e.parentElement.cells].every(o => o == e || o.textContent.length <= e.textContent.length))
      bad.push("a column of " + r.width.toFixed(0) + " px for '" + e.textContent.trim().slice(0, 30) + "'");
  });

  const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
  const light = c => c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length == 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const seen = {};
  document.querySelectorAll("body *").forEach(e => {
    if (/^(STYLE|SCRIPT)$/.test(e.tagName)) return;
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) return;
    const s = getComputedStyle(e), size = parseFloat(s.fontSize);
    const [a, b] = [light(rgb(e.closest("svg") ? s.fill : s.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const need = size >= 24 || size >= 18.66 && s.fontWeight >= 700 ? 3 : 4.5;
    if (ratio < need) seen["contrast " + ratio.toFixed(2) + " of '" + e.textContent.trim().slice(0, 30) + "'"] = 1;
  });
  bad.push(...Object.keys(seen));

  document.querySelectorAll("img:not([alt]), [role=img]:not([aria-label]), [role=region]:not([aria-label])")
    .forEach(e => bad.push(e.tagName + " has no name"));
  document.querySelectorAll("th:not([scope])").forEach(e => bad.push("'" + e.textContent + "' heads nothing"));
  document.querySelectorAll("a").forEach(e => {
    if (!e.textContent.trim() && !e.ariaLabel) bad.push("a link has no name");
  });
  document.querySelectorAll("svg:not([role])").forEach(() => bad.push("a plot has no role"));
  parent.document.body.dataset.layout = bad.join("; ") || "fine";
});
