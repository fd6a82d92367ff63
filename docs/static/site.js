// What is too wide for a phone and can't be broken scrolls by itself: formulas within a line, tables, and figures of several panels.
function markWide() {
  for (const math of document.querySelectorAll('span.math')) {
    math.classList.remove('wide');
    const box = math.closest('p, li, td, dd, figcaption') || math.parentElement;
    if (math.firstElementChild && math.firstElementChild.scrollWidth > box.clientWidth) math.classList.add('wide');
  }
  for (const math of document.querySelectorAll('div.math')) {
    const box = math.querySelector(':scope > mjx-container');
    math.classList.toggle('more', !!box && box.scrollWidth > box.clientWidth + 2);
  }
  for (const table of document.querySelectorAll('article table')) {
    for (const cell of table.querySelectorAll('td')) cell.classList.toggle('long', cell.textContent.trim().length > 36 && cell.textContent.trim() !== cell.querySelector('code')?.textContent.trim());
    const box = table.parentElement;
    box.classList.remove('more');
    if (box.matches('.pst-scrollable-table-container, .text_html')) box.classList.toggle('more', table.offsetWidth > box.clientWidth + 1);
  }
  for (const img of document.querySelectorAll('article figure img')) {
    let box = img.parentElement;
    if (!box.classList.contains('figure-box')) {
      box = document.createElement('div');
      box.className = 'figure-box';
      img.replaceWith(box);
      box.append(img);
    }
    box.classList.toggle('scroll', img.naturalWidth > 1.8 * box.clientWidth);
  }
}
window.addEventListener('load', () => { markWide(); window.MathJax?.startup?.promise?.then(markWide); });
window.addEventListener('resize', markWide);
