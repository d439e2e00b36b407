// Shows a run under way without loading the page again; without it, the page asks for itself.
"use strict";
(() => {
  const sight = document.getElementById("sight");
  const look = async () => {
    try {
      const answer = await fetch(sight.dataset.part, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      // Text becomes elements as the page's own did: escaped by the server, and without scripts.
      const seen = new DOMParser().parseFromString(await answer.text(), "text/html");
      sight.replaceChildren(...seen.body.childNodes);
    } catch {
      // The server is busy, or gone for a moment: the next look tells.
    }
    const section = sight.querySelector("[data-alive]");
    if (section && section.dataset.alive === "1") setTimeout(look, 1000);
  };
  setTimeout(look, 1000);
})();
