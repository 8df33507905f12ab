// A page of a run that goes on: asks its server how far the run is, and loads anew when there is more to show.

(() => {
  const shown = document.getElementById("progress"), every = 2000; // milliseconds
  const bar = shown.querySelector("progress"), words = shown.querySelector("p");

  async function renew() {
    try {
      const now = await (await fetch("progress", { cache: "no-store" })).json();
      if (now.version !== shown.dataset.version) { location.reload(); return; }
      bar.value = now.share;
      if (words.textContent !== now.words) words.textContent = now.words;
    } catch {
      words.textContent = "No answer: the process that served this page has ended. What it left is in the run folder.";
    }
    setTimeout(renew, every);
  }
  renew();
})();
