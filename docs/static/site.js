// Formulas within a line can't be broken: one that is wider than the text (on a phone) scrolls by itself.
function markWide() {
  for (const math of document.querySelectorAll('span.math')) {
    math.classList.remove('wide');
    const box = math.closest('p, li, td, dd, figcaption') || math.parentElement;
    if (math.firstElementChild && math.firstElementChild.scrollWidth > box.clientWidth) math.classList.add('wide');
  }
}
window.addEventListener('load', () => window.MathJax?.startup?.promise?.then(markWide));
window.addEventListener('resize', markWide);
