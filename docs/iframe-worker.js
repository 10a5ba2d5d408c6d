/* The search runs in a worker. Browsers refuse workers of pages that are opened as files: there, a hidden frame does the same. */
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = Object.assign(this.inside.document.createElement("script"), { src: url });
      this.loaded = new Promise((done) => (script.onload = done));
      this.inside.document.body.append(script);
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
