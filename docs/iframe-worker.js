// Search from disk: browsers start no worker for a page without a server, so its script runs in a
// frame of the page, and messages are events of the frame's window and of this object.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      this.waiting = []; // what was sent before the script was there
      const inside = this.frame.contentWindow;
      const page = inside.document;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = page.createElement("script");
          Object.assign(script, { src: source, onload: resolve, onerror: reject });
          page.body.append(script);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      load(new URL(url, document.baseURI).href).then(() => {
        const early = this.waiting;
        this.waiting = null;
        early.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
