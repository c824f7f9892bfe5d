// SPDX-License-Identifier: GPL-3.0-or-later
// Says what a server answers, as one line of JSON: node check.mjs PORT TOKEN HELLO.json ROW.json
// The handshake's answer, the first pose that is pushed, and the answer to the prediction of the numbers in ROW.json.
import { readFileSync } from "node:fs";
import { connect, TYPE } from "./nik_client.mjs";

const [port, token, hello, row] = process.argv.slice(2);
const out = {};
try {
  const client = await connect(JSON.parse(readFileSync(hello)), { port: Number(port), token });
  out.answer = client.answer;
  const finish = () => {
    if (out.pose && out.predict) {
      process.stdout.write(`${JSON.stringify(out)}\n`);
      client.close();
      process.exit(0);
    }
  };
  client.on(TYPE.pose, (message) => {
    out.pose = client.numbers(message.payload);
    finish();
  });
  client.on(TYPE.predict, (message) => {
    out.predict = client.numbers(message.payload);
    out.sequence = message.sequence;
    finish();
  });
  out.asked = client.send(TYPE.predict, JSON.parse(readFileSync(row)));
  setTimeout(() => process.exit(3), 120000);
} catch (error) {
  process.stdout.write(`${JSON.stringify({ error: error.message })}\n`);
  process.exit(1);
}
