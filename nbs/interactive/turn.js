// Step size against curve and drift: a point on the circle, moved by the straight step, the exact Cayley transform and Algorithm 1's iteration.
const figure = document.getElementById('fig-turn'), svgns = 'http://www.w3.org/2000/svg';
const colors = { straight: '#7F7F7F', exact: '#0072B2', iterative: '#D55E00' }, says = { straight: 'straight step', exact: 'exact transform', iterative: 'iteration, s = 2' };

function draw(parent, tag, attrs, text) {
  const e = parent.appendChild(document.createElementNS(svgns, tag));
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}

const data = await (await fetch('interactive/turn.json')).json();
const svg = document.createElementNS(svgns, 'svg'), names = Object.keys(colors);
svg.setAttribute('viewBox', '0 0 640 290'); svg.setAttribute('width', 640); svg.setAttribute('role', 'img');
const X = v => 140 + 68*v, Y = v => 135 - 68*v;                                     // the plane of the circle
const U = t => 350 + 270*t/data.tau.at(-1), V = d => 240 - 210*Math.min(d, 1);      // drift against tau
draw(svg, 'circle', { cx: X(0), cy: Y(0), r: 68, fill: 'none', stroke: 'currentColor', 'stroke-opacity': .4 });
draw(svg, 'path', { d: `M350,30 V240 H620`, fill: 'none', stroke: 'currentColor', 'stroke-opacity': .6 });
for (const d of [0, .5, 1]) draw(svg, 'text', { x: 344, y: V(d)+4, 'text-anchor': 'end', 'font-size': 11, fill: 'currentColor' }, d);
for (const t of [0, 1, 2, 3, 4]) draw(svg, 'text', { x: U(t), y: 256, 'text-anchor': 'middle', 'font-size': 11, fill: 'currentColor' }, t);
draw(svg, 'text', { x: 485, y: 275, 'text-anchor': 'middle', 'font-size': 12, fill: 'currentColor' }, 'step size τ (the gradient has length 1)');
draw(svg, 'text', { x: 356, y: 24, 'font-size': 12, fill: 'currentColor' }, 'distance from the circle');
draw(svg, 'circle', { cx: X(data.start[0]), cy: Y(data.start[1]), r: 4, fill: 'currentColor' });
draw(svg, 'text', { x: X(data.start[0])+7, y: Y(data.start[1])-6, 'font-size': 12, fill: 'currentColor' }, 'W');
const cursor = draw(svg, 'line', { y1: 30, y2: 240, stroke: 'currentColor', 'stroke-opacity': .5, 'stroke-dasharray': '3 3' });
const parts = {};
names.forEach((n, k) => {
  draw(svg, 'path', { d: 'M'+data.drift[n].map((d, i) => `${U(data.tau[i])},${V(d)}`).join('L'), fill: 'none', stroke: colors[n], 'stroke-width': 1.5 });
  draw(svg, 'text', { x: 10, y: 250+15*k, 'font-size': 12, fill: colors[n] }, says[n]);
  parts[n] = [draw(svg, 'path', { fill: 'none', stroke: colors[n], 'stroke-width': 1.5 }), draw(svg, 'circle', { r: 5, fill: colors[n] }), draw(svg, 'circle', { r: 4, fill: colors[n] }),
              draw(svg, 'text', { x: 110, y: 250+15*k, 'font-size': 12, fill: colors[n] })];
});
const label = document.createElement('label'), slider = document.createElement('input'), value = document.createElement('span');
Object.assign(slider, { type: 'range', min: 0, max: data.tau.length-1, step: 1, value: 30 });
slider.setAttribute('aria-label', 'step size τ'); slider.style.width = '60%';
label.style.display = 'block'; label.append('τ ', slider, ' ', value);

function show() {
  const i = +slider.value;
  value.textContent = data.tau[i].toFixed(2);
  cursor.setAttribute('x1', U(data.tau[i])); cursor.setAttribute('x2', U(data.tau[i]));
  for (const n of names) {
    const [trail, point, mark, text] = parts[n], at = data[n];
    trail.setAttribute('d', 'M'+at.slice(0, i+1).map(p => `${X(p[0])},${Y(p[1])}`).join('L'));
    point.setAttribute('cx', X(at[i][0])); point.setAttribute('cy', Y(at[i][1]));
    mark.setAttribute('cx', U(data.tau[i])); mark.setAttribute('cy', V(data.drift[n][i]));
    text.textContent = `off by ${data.drift[n][i].toFixed(3)}`;
  }
  svg.setAttribute('aria-label', `At step size ${value.textContent}: `+names.map(n => `${says[n]} off by ${data.drift[n][i].toFixed(3)}`).join(', '));
}
slider.addEventListener('input', show); show();
const img = figure.querySelector('img');
(img.closest('.figure-box') || img).replaceWith(svg, label);
