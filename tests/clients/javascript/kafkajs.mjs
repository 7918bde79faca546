// Has kafkajs create a topic and write to it: kafkajs.mjs BOOTSTRAP TOPIC RECORDS FIRST_TIMESTAMP_MS.
//
// It can't read without a group, so another client checks what came. Each record is as tests/clients/content.py says.
// Exits with 0 when everything was acknowledged, each batch with the offset it must have.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { crc32 } from "./crc32.mjs";

const PARTITIONS = 8;
// Records of one partition in one request.
const BATCH = 500;

// The packages stand where install.sh put them, not beside this file.
const modules = createRequire(pathToFileURL(join(process.env.RINGLOG_NODE, "package.json")));
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = modules("kafkajs");
const lz4 = modules("lz4js");
const snappy = modules("snappyjs");
const zstd = modules("@bokuweb/zstd-wasm");

const XERIAL_HEADER = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1]);

// In Xerial's format, with the whole as a single block.
function snappyFrame(bytes) {
  const block = Buffer.from(snappy.compress(bytes));
  const size = Buffer.alloc(4);
  size.writeInt32BE(block.length);
  return Buffer.concat([XERIAL_HEADER, size, block]);
}

function register(type, compress) {
  const decompress = () => Promise.reject(new Error("this program only writes"));
  CompressionCodecs[type] = () => ({
    compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
    decompress,
  });
}

const alphabet = Buffer.concat([...Array(2)].map(() => Buffer.from(Array.from({ length: 256 }, (_, at) => at))));

// The record with this number in this partition.
function record(partition, sequence, firstTimestampMs) {
  const start = (sequence * 31) % 256;
  const pad = alphabet.subarray(start, start + ((sequence * 7919 + partition * 104729) % 200));
  const crc = crc32(pad);
  const crcBytes = Buffer.alloc(4);
  crcBytes.writeUInt32BE(crc);
  const digits = Buffer.from(crc.toString(16).padStart(8, "0"));
  return {
    partition,
    key: sequence % 50 === 49 ? null : `${partition}-${String(sequence).padStart(8, "0")}`,
    value: sequence % 100 === 98 ? null : Buffer.concat([pad, digits]),
    // This client writes no header without a value.
    headers: { partition: String(partition), crc: crcBytes, empty: Buffer.alloc(0) },
    timestamp: String(firstTimestampMs + sequence),
  };
}

async function sendAll(producer, topic, compression, sequences, firstTimestampMs) {
  for (let first = sequences.first; first < sequences.end; first += BATCH) {
    const end = Math.min(first + BATCH, sequences.end);
    const messages = [];
    for (let partition = 0; partition < PARTITIONS; partition += 1) {
      for (let sequence = first; sequence < end; sequence += 1) {
        messages.push(record(partition, sequence, firstTimestampMs));
      }
    }
    const answers = await producer.send({ topic, compression, acks: -1, messages });
    for (const { partition, baseOffset } of answers) {
      if (Number(baseOffset) !== first) {
        throw new Error(`partition ${partition}: offset ${baseOffset} came where ${first} was due`);
      }
    }
  }
}

async function main([bootstrap, topic, total, firstTimestampMs]) {
  await zstd.init();
  register(CompressionTypes.Snappy, snappyFrame);
  register(CompressionTypes.LZ4, (bytes) => lz4.compress(bytes));
  register(CompressionTypes.ZSTD, (bytes) => zstd.compress(bytes, 3));
  const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });

  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: 1 }] });
  await admin.disconnect();

  const { None, GZIP, Snappy, LZ4, ZSTD } = CompressionTypes;
  const codecs = [None, GZIP, Snappy, LZ4, ZSTD];
  const share = Number(total) / PARTITIONS / codecs.length;
  const producer = kafka.producer({ createPartitioner: () => ({ message }) => message.partition });
  await producer.connect();
  for (const [turn, codec] of codecs.entries()) {
    const sequences = { first: turn * share, end: (turn + 1) * share };
    await sendAll(producer, topic, codec, sequences, Number(firstTimestampMs));
  }
  await producer.disconnect();
  console.log("passed: produce");
}

if (process.argv.length !== 6) {
  console.error("usage: kafkajs.mjs BOOTSTRAP TOPIC RECORDS FIRST_TIMESTAMP_MS");
  process.exit(2);
}
main(process.argv.slice(2)).catch((error) => {
  console.error(`FAILED: ${error.stack}`);
  process.exit(1);
});
