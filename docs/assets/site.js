// A table that is wider than its window scrolls. The theme wraps it; the keyboard must reach it, too.
const reachable = () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])"))
    wrap.tabIndex = 0
}
new MutationObserver(reachable).observe(document.body, {childList: true, subtree: true})
reachable()
