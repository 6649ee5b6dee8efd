// A whole guest of capd in JavaScript, to copy from: it restores a locator, looks around, reads, writes on a condition, streams, extracts an archive, uses a
// directory of its own, and gives a part away.
//
//   npm install capnp-es typescript@5.9
//   sed -i 's/-> stream;/-> ();/' schema/*.capnp       (capnp-es does not know stream; on the wire it is the same)
//   capnp compile -o node_modules/capnp-es/dist/compiler/capnpc-js.mjs:. --src-prefix=schema schema/guest.capnp schema/go.capnp
//   node guest.mjs LOCATOR

import { Right, Session, Sink } from "./guest.js";
import { code, open, parseLocator } from "./connection.mjs";

const locator = parseLocator(process.argv[2]);
const connection = await open(locator);
const session = connection.bootstrap(Session);
const text = new TextEncoder();

// data sets a field of bytes.
const data = (params, field, bytes) => params[`_init${field}`](bytes.length).copyBuffer(bytes);
// refused prints the code of a refusal.
async function refused(what, promise) {
  try {
    await promise;
  } catch (error) {
    console.log(`${what}refused ${code(error) ?? error}`);
    return;
  }
  throw new Error("it was not refused");
}

// Restore the locator. Calls on the result are made at once: all of this is one round trip.
const dir = session.restoreDir((p) => data(p, "Secret", locator.secret)).getDir();

// List, a page at a time.
let count = 0;
for (let more = true, last = new Uint8Array(); more; ) {
  const page = await dir.list((p) => {
    p.limit = 2;
    data(p, "After", last);
  }).promise();
  for (const entry of page.entries) {
    console.log(`entry ${entry.name}`);
    count++;
    last = entry.rawName.length ? entry.rawName.toUint8Array() : text.encode(entry.name); // names are bytes; rawName is set if they are not UTF-8
  }
  more = page.more;
}

// Read, and write only if nobody else has changed the file since.
const file = dir.openFile((p) => (p.path = "notes.txt")).getFile();
const read = await file.readText().promise();
console.log(`read ${read.text}`);
const version = read.version.toUint8Array();
await file.writeText((p) => {
  p.text = read.text + " and more";
  data(p._initIfVersion(), "Equals", version);
}).promise();

// The same again is a conflict, since the version is another one now.
await refused("", file.writeText((p) => {
  p.text = "lost";
  data(p._initIfVersion(), "Equals", version);
}).promise());

// Write a large file: stage it, send pieces, and commit.
const writer = dir.stage((p) => (p.path = "large")).getWriter();
const pieces = [];
for (let i = 0; i < 8; i++) {
  pieces.push(writer.write((p) => data(p, "Data", new Uint8Array(256 << 10).fill(i))).promise());
}
await Promise.all(pieces);
await writer.commit().promise();

// Read it as a stream. The sink is an object of this program, which the host calls.
let bytes = 0;
const sink = new Sink.Server({
  write: async (p) => void (bytes += p.data.length),
  done: async () => {},
});
const sent = await dir.openFile((p) => (p.path = "large")).getFile().stream((p) => (p.sink = sink.client())).promise();
if (Number(sent.bytes) !== bytes) throw new Error(`the host sent ${sent.bytes} bytes, and ${bytes} came`);
console.log(`streamed ${bytes} bytes`);

// Extract an archive into a directory of this guest's own, which ends with the connection.
const temp = dir.temp().getDir();
const extracted = await dir.extract((p) => {
  p.path = "archive.tar";
  p.dst = temp;
  p.newPath = "out";
}).promise();
const inner = await temp.openFile((p) => (p.path = "out/inner.txt")).getFile().readText().promise();
console.log(`extracted ${extracted.entries}: ${inner.text}`);

// Give somebody else a part of it, to read only, until it is revoked.
const sub = dir.subDir((p) => (p.path = "sub")).getDir().readOnly().getDir();
const given = await session.share((p) => (p._initRef().dir = sub)).promise();
const theirs = session.restoreDir((p) => data(p, "Secret", given.secret.toUint8Array())).getDir();
await refused("a share ", theirs.put((p) => (p.path = "new")).promise());
await given.revoker.revoke().promise();
await refused("a share ", theirs.list().promise());

// Ask for more, if this program has an invitation, and wait until the host has decided.
if (process.argv[3]) {
  const petitioner = session.restorePetitioner((p) => data(p, "Secret", parseLocator(process.argv[3]).secret)).getPetitioner();
  const roots = await petitioner.roots().promise();
  const more = petitioner.requestDir((p) => {
    p.root = roots.roots.get(0).id;
    p._initAccess(2).set(0, Right.READ);
    p.access.set(1, Right.LIST);
    p.reason = "to show how it is done";
  }).getDir();
  const answer = await more.list().promise();
  console.log(`granted, with ${answer.entries.length} entries`);
}
console.log(`end ${count}`);
connection.transport.close();
