// What is too wide for a phone and can't be broken scrolls by itself: formulas within a line, and figures of several panels.
function markWide() {
  for (const math of document.querySelectorAll('span.math')) {
    math.classList.remove('wide');
    const box = math.closest('p, li, td, dd, figcaption') || math.parentElement;
    if (math.firstElementChild && math.firstElementChild.scrollWidth > box.clientWidth) math.classList.add('wide');
  }
  for (const img of document.querySelectorAll('article figure img')) {
    let box = img.parentElement;
    if (!box.classList.contains('figure-box')) {
      box = document.createElement('div');
      box.className = 'figure-box';
      img.replaceWith(box);
      box.append(img);
    }
    box.classList.toggle('scroll', img.naturalWidth > 1.5 * box.clientWidth);
  }
}
window.addEventListener('load', () => { markWide(); window.MathJax?.startup?.promise?.then(markWide); });
window.addEventListener('resize', markWide);
