// Unpacks the numbers of the folder, when first asked; routebench/report/_values.py says how they are packed.
let unpacked = null;
const allValues = () => (unpacked ??= unpack(document.getElementById("values").textContent.trim()));

async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const body = await new Response(stream).arrayBuffer();
  const length = new DataView(body).getUint32(0, true);
  const heading = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, length)));
  const { rows, arrays, columns: packedColumns, ...facts } = heading;
  let place = 4 + length;
  const value = new Float64Array(body, place, rows);
  place += 8 * rows;
  const found = {};
  for (const [name, size] of Object.entries(arrays)) {
    found[name] = new Float32Array(body, place, size);
    place += 4 * size;
  }
  const columns = new Map();
  for (const { name, kinds, bytes } of packedColumns) {
    const codes = new { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[bytes](body, place, rows);
    columns.set(name, { name, kinds, codes });
    place += bytes * rows;
  }
  const values = { rows, value, columns, facts, ...found };
  addAsTrained(values);
  return values;
}

// Whether a value was measured with as many iterations as its network was trained with.
function addAsTrained(values) {
  const [trained, tested] = [values.columns.get("iterations"), values.columns.get("test_iterations")];
  if (!trained || !tested) return;
  const same = tested.kinds.map((kind) => (kind === null ? -1 : trained.kinds.indexOf(kind)));
  const codes = new Uint8Array(values.rows);
  for (let row = 0; row < values.rows; row++) {
    const place = same[tested.codes[row]];
    codes[row] = tested.kinds[tested.codes[row]] === null || place === trained.codes[row] ? 1 : 0;
  }
  values.columns.set("as_trained", { name: "as_trained", kinds: ["no", "yes"], codes });
}

// As routebench has it: the mean over seeds of what a row belongs to, with its 95 % interval.
function estimateAt(values, row) {
  const group = kindAt(values, "group", row);
  return { mean: values.mean[group], low: values.low[group], high: values.high[group], n: values.facts.n[group] };
}

const kindAt = (values, name, row) => {
  const column = values.columns.get(name);
  return column ? column.kinds[column.codes[row]] : null;
};

// Rows in which each named column has one of the kinds.
function rowsWhere(values, wanted, among = null) {
  const tests = [];
  for (const [name, kinds] of Object.entries(wanted)) {
    const column = values.columns.get(name);
    if (!column) {
      if (kinds.some((kind) => kind === null || kind === "")) continue;
      return [];
    }
    tests.push([column.codes, Uint8Array.from(column.kinds, (kind) => kinds.includes(kind))]);
  }
  const found = [];
  const count = among ? among.length : values.rows;
  for (let place = 0; place < count; place++) {
    const row = among ? among[place] : place;
    if (tests.every(([codes, fits]) => fits[codes[row]])) found.push(row);
  }
  return found;
}

// The different kinds of a column among rows, in the order of the column.
function kindsAmong(values, name, rows) {
  const column = values.columns.get(name);
  if (!column) return [];
  const seen = new Uint8Array(column.kinds.length);
  for (const row of rows) seen[column.codes[row]] = 1;
  return column.kinds.filter((_, code) => seen[code]);
}
