// The accuracy matrix R growing task by task, one heat map a method.
const figure = document.getElementById('fig-growing'), svgns = 'http://www.w3.org/2000/svg';

function draw(parent, tag, attrs, text) {
  const e = parent.appendChild(document.createElementNS(svgns, tag));
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}

const data = await (await fetch('interactive/growing.json')).json();
const T = data.runs[0].R.length, side = 180, cell = side/T, svg = document.createElementNS(svgns, 'svg');
svg.setAttribute('viewBox', `0 0 ${data.runs.length*210+10} 250`); svg.setAttribute('width', data.runs.length*210+10); svg.setAttribute('role', 'img');
const maps = data.runs.map((run, k) => {
  const g = draw(svg, 'g', { transform: `translate(${k*210+20},24)` });
  draw(g, 'text', { x: side/2, y: -9, 'text-anchor': 'middle', 'font-size': 13, fill: 'currentColor' }, run.name);
  draw(g, 'rect', { width: side, height: side, fill: 'none', stroke: 'currentColor', 'stroke-opacity': .4 });
  draw(g, 'text', { x: side/2, y: side+14, 'text-anchor': 'middle', 'font-size': 11, fill: 'currentColor' }, 'tested on task j');
  if (!k) draw(g, 'text', { transform: `translate(-6,${side/2}) rotate(-90)`, 'text-anchor': 'middle', 'font-size': 11, fill: 'currentColor' }, 'after task i');
  const rows = run.R.map((row, i) => {
    const r = draw(g, 'g', {});
    row.slice(0, i+1).forEach((v, j) => draw(r, 'rect', { x: j*cell, y: i*cell, width: cell+.3, height: cell+.3, fill: `color-mix(in srgb, #08306b ${Math.round(100*Math.max(0, (v-.1)/.9))}%, #f7fbff)` }));
    return r;
  });
  return { run, rows, text: draw(g, 'text', { x: side/2, y: side+32, 'text-anchor': 'middle', 'font-size': 12, fill: 'currentColor' }) };
});
const label = document.createElement('label'), slider = document.createElement('input'), value = document.createElement('span');
Object.assign(slider, { type: 'range', min: 1, max: T, step: 1, value: T });
slider.setAttribute('aria-label', 'tasks learned'); slider.style.width = '60%';
label.style.display = 'block'; label.append('tasks learned ', slider, ' ', value);

function show() {
  const n = +slider.value, said = [];
  value.textContent = n;
  for (const { run, rows, text } of maps) {
    rows.forEach((r, i) => r.setAttribute('visibility', i < n ? 'visible' : 'hidden'));
    const last = run.R[n-1].slice(0, n), mean = last.reduce((a, b) => a+b)/n;
    const lost = last.slice(0, -1).map((v, j) => Math.max(...run.R.slice(j, n-1).map(r => r[j]))-v);
    text.textContent = `accuracy ${(100*mean).toFixed(1)} %` + (n > 1 ? `, forgetting ${(lost.reduce((a, b) => a+b)/(n-1)).toFixed(2)}` : '');
    said.push(`${run.name}: ${text.textContent}`);
  }
  svg.setAttribute('aria-label', `After ${n} tasks. `+said.join('; '));
}
slider.addEventListener('input', show); show();
const img = figure.querySelector('img');
(img.closest('.figure-box') || img).replaceWith(svg, label);
