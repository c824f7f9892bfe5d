# SPDX-License-Identifier: GPL-3.0-or-later
# A Neural IK live client for Godot 3. The protocol is described in docs/protocol.md.
#
#   var client = preload("nik_client.gd").new()
#   client.open({"rig": "hero", "axes": ["-X", "+Y", "+Z"], "quaternion": "xyzw", "layout": "legs"})
#   func _process(_delta):
#       for message in client.poll():
#           if message.type == client.PREDICT:
#               apply(client.numbers(message.payload))
#       client.send_numbers(client.PREDICT, row)    # row: an array of 63 numbers
#
# Nothing here blocks: call poll() once a frame.
extends Reference

const HANDSHAKE = 1
const TRAIN = 2
const PREDICT = 3
const SOLVE = 4
const CONTROL = 5
const PING = 6
const AUTH = 7
const POSE = 8
const ERROR = 0x7F
const FLAG_ANSWER = 1
const FLAG_EXACT = 2
const HEADER = 24

var answer = null  # the handshake's answer, once it has arrived
var error = ""  # why the connection was closed
var _tcp = StreamPeerTCP.new()
var _hello = {}
var _token = ""
var _nonce = PoolByteArray()
var _theirs = PoolByteArray()
var _inbox = PoolByteArray()
var _sequence = 0


func open(hello, host = "127.0.0.1", port = 47807, token = ""):
	_hello = hello
	_token = token
	_nonce = Crypto.new().generate_random_bytes(32)
	_tcp.connect_to_host(host, port)
	_tcp.set_no_delay(true)


func close():
	_tcp.disconnect_from_host()


# Messages received, in order: dictionaries with type, flags, sequence, time and payload.
func poll():
	var out = []
	if _tcp.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		return out
	var ready = _tcp.get_available_bytes()
	if ready > 0:
		_inbox.append_array(_tcp.get_data(ready)[1])
	while _inbox.size() >= HEADER:
		var head = StreamPeerBuffer.new()
		head.data_array = _inbox.subarray(0, HEADER - 1)
		head.big_endian = false
		if head.get_32() != 0x314B494E or head.get_u8() != 1:  # "NIK1", version 1
			_end("not a NIK1 server")
			return out
		var message = {"type": head.get_u8(), "flags": head.get_u16()}
		var length = head.get_u32()
		message["sequence"] = head.get_u32()
		message["time"] = head.get_double()
		if _inbox.size() < HEADER + length:
			break
		message["payload"] = _slice(_inbox, HEADER, HEADER + length)
		_inbox = _slice(_inbox, HEADER + length, _inbox.size())
		if not _opening(message):
			out.append(message)
	return out


# Send numbers (training frame, prediction, solve); returns the sequence number that the answer will have.
func send_numbers(type, row, flags = 0):
	var buffer = StreamPeerBuffer.new()
	buffer.big_endian = false
	for value in row:
		buffer.put_double(value)
	return _send(type, buffer.data_array, flags)


# 1 pause, 2 resume, 3 save, 4 reset, 5 undo
func control(code):
	return _send(CONTROL, PoolByteArray([code]))


func numbers(payload):
	var buffer = StreamPeerBuffer.new()
	buffer.data_array = payload
	buffer.big_endian = false
	var out = []
	for _i in range(payload.size() / 8):
		out.append(buffer.get_double())
	return out


func _send(type, payload, flags = 0):
	_sequence = (_sequence + 1) & 0xFFFFFFFF
	var buffer = StreamPeerBuffer.new()
	buffer.big_endian = false
	buffer.put_data("NIK1".to_ascii())
	buffer.put_u8(1)
	buffer.put_u8(type)
	buffer.put_u16(flags)
	buffer.put_u32(payload.size())
	buffer.put_u32(_sequence)
	buffer.put_double(OS.get_ticks_usec() / 1000000.0)
	if payload.size() > 0:
		buffer.put_data(payload)
	_tcp.put_data(buffer.data_array)
	return _sequence


# The opening: the token where the server requires one, then the handshake. True where the message was part of it.
func _opening(message):
	if message.type == HANDSHAKE:
		answer = JSON.parse(message.payload.get_string_from_utf8()).result
	elif message.type == ERROR and answer == null:
		error = str(JSON.parse(message.payload.get_string_from_utf8()).result["text"])
	elif message.type != AUTH:
		return false
	elif message.flags & FLAG_ANSWER:
		if message.payload != _mac("server", _nonce, _theirs):
			_end("the server does not know the token")
			return true
		_send(HANDSHAKE, JSON.print(_hello).to_utf8())
	elif message.payload.size() == 0:
		_send(HANDSHAKE, JSON.print(_hello).to_utf8())
	else:
		_theirs = message.payload
		var proof = PoolByteArray(_nonce)
		proof.append_array(_mac("client", _theirs, _nonce))
		_send(AUTH, proof)
	return true


func _end(why):
	error = why
	close()


# HMAC-SHA256 (RFC 2104) of "NIK1 role", a zero byte and both nonces: Godot 3.2 has no HMACContext yet.
func _mac(role, first, second):
	var key = _token.to_utf8()
	if key.size() > 64:
		key = _sha256(key)
	var inner = PoolByteArray()
	var outer = PoolByteArray()
	for i in range(64):
		var byte = key[i] if i < key.size() else 0
		inner.append(byte ^ 0x36)
		outer.append(byte ^ 0x5C)
	inner.append_array(("NIK1 " + role).to_utf8())
	inner.append(0)
	inner.append_array(first)
	inner.append_array(second)
	outer.append_array(_sha256(inner))
	return _sha256(outer)


func _sha256(data):
	var context = HashingContext.new()
	context.start(HashingContext.HASH_SHA256)
	context.update(data)
	return context.finish()


func _slice(data, from, to):
	return data.subarray(from, to - 1) if to > from else PoolByteArray()
