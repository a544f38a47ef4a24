// Search from disk: browsers start no worker for a page that was opened as a file. Here a worker is a hidden frame that
// runs the same script; messages go to and fro between the two windows.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.body.append(frame)
      this.inner = frame.contentWindow
      // What the script sends goes to this window; what it loads is loaded in order.
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inner.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => this.load(url)), Promise.resolve())
      this.ready = this.load(script)
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const element = this.inner.document.createElement("script")
        element.src = new URL(url, location.href).href
        element.onload = resolve
        element.onerror = reject
        this.inner.document.body.append(element)
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })))
    }

    terminate() {
      this.inner.frameElement.remove()
    }
  }
}
