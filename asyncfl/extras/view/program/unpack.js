// What happened, out of the packed text: see asyncfl/extras/view/packing.py.

async function unpacked(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const whole = await new Response(stream).arrayBuffer();
  const length = Number(new DataView(whole).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 8, length)));
  const types = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };
  const numbers = (ref) => new types[ref.t](whole, 8 + length + ref.o, ref.n);
  return { header, numbers };
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
