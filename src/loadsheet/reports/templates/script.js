"use strict";
(() => {
  const form = document.querySelector(".filters");
  const open = () => {
    const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!found || !found.classList.contains("document")) return;
    found.hidden = false;
    for (let around = found.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    const details = found.querySelector("details");
    if (details) details.open = true;
    found.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
  const printed = [];
  addEventListener("beforeprint", () => document.querySelectorAll("main > :not([aria-labelledby=orders], [aria-labelledby=causes]) details:not([open])").forEach(one => {
    one.open = true;
    printed.push(one);
  }));
  addEventListener("afterprint", () => printed.splice(0).forEach(one => { one.open = false; }));
  if (!form) return;
  const documents = [...document.querySelectorAll(".document")];
  const texts = new Map();
  const squeezed = word => word.replace(/[-._/]/g, "");
  const text = one => {
    if (!texts.has(one)) {  // "A 4501" and "a4501" find A-4501
      const all = one.textContent.toLowerCase();
      texts.set(one, `${all} ${squeezed(all)}`);
    }
    return texts.get(one);
  };
  const control = name => document.getElementById(name);
  const apply = () => {
    const words = control("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [outcome, file, mapping] = ["outcome", "file", "mapping"].map(name => control(name).value);
    if (words.length || outcome || file || mapping) document.querySelectorAll("details.documents").forEach(one => { one.open = true; });
    let shown = 0;
    for (const one of documents) {
      const fits = (!outcome || one.dataset.outcome === outcome) && (!mapping || one.dataset.mapping === mapping)
        && (!file || one.dataset.file.split("\n").includes(file)) && words.every(word => text(one).includes(word) || text(one).includes(squeezed(word)));
      one.hidden = !fits;
      shown += fits;
    }
    const beyond = Number(control("count").dataset.beyond);
    control("count").textContent = `${shown} of ${documents.length} found${beyond ? `; ${beyond.toLocaleString("en")} more are only in the workbook` : ""}`;
  };
  form.hidden = false;
  for (const happening of ["input", "change"]) form.addEventListener(happening, apply);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  document.querySelectorAll("[data-choose]").forEach(link => link.addEventListener("click", () => {
    form.reset();
    control("outcome").value = link.dataset.choose;
    apply();
  }));
  apply();
})();
