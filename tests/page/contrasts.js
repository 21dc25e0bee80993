/* What on the page has less contrast than WCAG AA asks, by computed style, and how much was looked at. */
() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return { r, g, b, a }; };
  const over = (top, under) => {
    const mix = (one, other) => one * top.a + other * (1 - top.a);
    return { r: mix(top.r, under.r), g: mix(top.g, under.g), b: mix(top.b, under.b), a: 1 };
  };
  const ground = (it) => {
    const layers = [];
    for (let at = it; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = ({ r, g, b }) => [r, g, b].map((v) => v / 255).map(
    (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ratio = (one, other) => { const [low, high] = [light(one), light(other)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
  const seen = (it) => it.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && it.getClientRects().length;
  const poor = []; let looked = 0;
  const judge = (it, colour, least, what) => {
    const under = ground(it);
    const got = ratio(over(parse(colour), under), under);
    looked += 1;
    if (got < least) poor.push(`${what} ${it.tagName}.${it.className} ${got.toFixed(2)} "${(it.textContent || it.placeholder || '').slice(0, 30)}"`);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const it = node.parentElement;
    if (!node.data.trim() || !seen(it) || it.closest(':disabled, option, noscript, .off-screen, .skip')) continue;
    const style = getComputedStyle(it);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    judge(it, style.color, large ? 3 : 4.5, 'text');
  }
  for (const it of document.querySelectorAll('input, select')) {
    if (!seen(it) || it.disabled) continue;
    judge(it, getComputedStyle(it).color, 4.5, 'field');
    if (it.placeholder) judge(it, getComputedStyle(it, '::placeholder').color, 4.5, 'placeholder');
    judge(it.parentElement, getComputedStyle(it).borderTopColor, 3, 'border');
  }
  return { poor, looked };
}
