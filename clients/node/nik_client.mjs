// SPDX-License-Identifier: GPL-3.0-or-later
// A Neural IK live client for Node 18 or newer, without packages. The protocol is described in docs/protocol.md.
//
//   import { connect, TYPE } from "./nik_client.mjs";
//   const client = await connect({ rig: "hero", axes: ["+X", "+Y", "+Z"], layout: "legs" }, { port: 47807 });
//   client.on(TYPE.predict, (message) => apply(client.numbers(message.payload)));
//   client.send(TYPE.predict, row);           // row: an array of 63 numbers

import { createConnection } from "node:net";
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

export const TYPE = { handshake: 1, train: 2, predict: 3, solve: 4, control: 5, ping: 6, auth: 7, pose: 8, error: 0x7f };
export const FLAG = { answer: 1, exact: 2, learning: 0x10, solving: 0x20, paused: 0x40, poisoned: 0x80 };
const HEADER = 24;
const LONGEST = 1 << 20; // [bytes] of an answer

function mac(token, role, first, second) {
  return createHmac("sha256", token).update(Buffer.concat([Buffer.from(`NIK1 ${role}\0`), first, second])).digest();
}

export function connect(hello, { host = "127.0.0.1", port = 47807, token = null } = {}) {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host, port });
    const handlers = new Map();
    let early = []; // messages without a handler yet: the first pose may arrive together with the handshake's answer
    const nonce = randomBytes(32);
    let inbox = Buffer.alloc(0);
    let theirs = Buffer.alloc(0);
    let sequence = 0;

    function write(type, payload, flags = 0) {
      const header = Buffer.alloc(HEADER);
      header.write("NIK1", 0, "latin1");
      header.writeUInt8(1, 4);
      header.writeUInt8(type, 5);
      header.writeUInt16LE(flags, 6);
      header.writeUInt32LE(payload.length, 8);
      sequence = (sequence + 1) >>> 0;
      header.writeUInt32LE(sequence, 12);
      header.writeDoubleLE(performance.now() / 1000, 16);
      socket.write(Buffer.concat([header, payload]));
      return sequence;
    }

    const client = {
      answer: null,
      /** Call `handler(message)` for every message of this type. */
      on(type, handler) {
        handlers.set(type, handler);
        const waiting = early.filter((message) => message.type === type);
        early = early.filter((message) => message.type !== type);
        waiting.forEach(handler);
      },
      /** Send numbers (training frame, prediction, solve) and return the sequence number that the answer will have. */
      send(type, row, flags = 0) {
        const payload = Buffer.alloc(8 * row.length);
        row.forEach((value, i) => payload.writeDoubleLE(value, 8 * i));
        return write(type, payload, flags);
      },
      /** Send a control code: 1 pause, 2 resume, 3 save, 4 reset, 5 undo. */
      control: (code) => write(TYPE.control, Buffer.from([code])),
      numbers: (payload) => Array.from({ length: payload.length / 8 }, (_, i) => payload.readDoubleLE(8 * i)),
      close: () => socket.end(),
    };

    function opening(message) {
      const greet = () => write(TYPE.handshake, Buffer.from(JSON.stringify(hello)));
      if (message.type === TYPE.auth && message.flags & FLAG.answer) {
        if (message.payload.length !== 32 || !timingSafeEqual(message.payload, mac(token, "server", nonce, theirs))) {
          return reject(new Error("the server does not know the token"));
        }
        return greet();
      }
      if (message.type === TYPE.auth) {
        theirs = message.payload;
        if (theirs.length === 0) return greet();
        return write(TYPE.auth, Buffer.concat([nonce, mac(token ?? "", "client", theirs, nonce)]));
      }
      if (message.type === TYPE.handshake) {
        client.answer = JSON.parse(message.payload.toString("utf8"));
        return resolve(client);
      }
      if (message.type === TYPE.error && client.answer === null) {
        reject(new Error(JSON.parse(message.payload.toString("utf8")).text));
      }
      return undefined;
    }

    socket.setNoDelay(true);
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the server closed the connection")));
    socket.on("data", (data) => {
      inbox = Buffer.concat([inbox, data]);
      while (inbox.length >= HEADER) {
        if (inbox.toString("latin1", 0, 4) !== "NIK1") return socket.destroy(new Error("not a NIK1 server"));
        const length = inbox.readUInt32LE(8);
        if (length > LONGEST) return socket.destroy(new Error(`expected at most ${LONGEST} bytes, got ${length}`));
        if (inbox.length < HEADER + length) return undefined;
        const message = {
          type: inbox.readUInt8(5),
          flags: inbox.readUInt16LE(6),
          sequence: inbox.readUInt32LE(12),
          time: inbox.readDoubleLE(16),
          payload: Buffer.from(inbox.subarray(HEADER, HEADER + length)),
        };
        inbox = inbox.subarray(HEADER + length);
        try {
          opening(message);
        } catch (error) {
          return socket.destroy(error); // an answer that is no JSON
        }
        if (handlers.has(message.type)) handlers.get(message.type)(message);
        else early = [...early, message].slice(-64);
      }
      return undefined;
    });
  });
}
