// SPDX-License-Identifier: GPL-3.0-or-later
// Prints what a server answers, as one line of JSON: node check.mjs PORT TOKEN HELLO.json ROW.json [POSES]
// It has the handshake's answer, the first POSES (1) poses that the server sends, and the prediction for the numbers in
// ROW.json; an empty list there requests none. Before, "greeted" is printed once the handshake is answered.
import { readFileSync } from "node:fs";

const loaded = await import("./nik_client.mjs").catch(() => null);
if (loaded === null || process.argv.length < 6) {
  const usage = "usage: node check.mjs PORT TOKEN HELLO.json ROW.json [POSES]";
  process.stderr.write(`${loaded === null ? "check.mjs needs nik_client.mjs beside it, in the same folder" : usage}\n`);
  process.exit(2);
}
const { connect, TYPE } = loaded;
const [port, token, hello, rowFile, poses] = process.argv.slice(2);
const out = { poses: [] };
try {
  const row = JSON.parse(readFileSync(rowFile));
  const client = await connect(JSON.parse(readFileSync(hello)), { port: Number(port), token });
  out.answer = client.answer;
  process.stdout.write("greeted\n");
  const finish = () => {
    if (out.poses.length >= Number(poses ?? 1) && (out.predict || row.length === 0)) {
      process.stdout.write(`${JSON.stringify(out)}\n`);
      client.close();
      process.exit(0);
    }
  };
  client.on(TYPE.pose, (message) => {
    out.poses.push(client.numbers(message.payload));
    finish();
  });
  client.on(TYPE.predict, (message) => {
    out.predict = client.numbers(message.payload);
    out.sequence = message.sequence;
    finish();
  });
  if (row.length > 0) out.asked = client.send(TYPE.predict, row);
  setTimeout(() => process.exit(3), 120000);
} catch (error) {
  process.stdout.write(`${JSON.stringify({ error: error.message })}\n`);
  process.exit(1);
}
