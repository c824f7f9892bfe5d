# SPDX-License-Identifier: GPL-3.0-or-later
# Prints what a server answers, as one line of JSON: godot3-server -s check.gd PORT TOKEN HELLO.json ROW.json POSES
# It has the handshake's answer, the first POSES poses that the server sends, and the prediction for the numbers in
# ROW.json; an empty list there requests none. Before, "greeted" is printed once the handshake is answered.
extends SceneTree

var _client = preload("nik_client.gd").new()
var _row = []
var _out = {"poses": []}
var _poses = 1
var _left = 120.0


func _init():
	var words = OS.get_cmdline_args()
	var last = words.size()
	_poses = int(words[last - 1])
	_row = _json(words[last - 2])
	_client.open(_json(words[last - 3]), "127.0.0.1", int(words[last - 5]), words[last - 4])


func _idle(delta):
	_left -= delta
	for message in _client.poll():
		if message.type == _client.POSE:
			_out["poses"].append(_client.numbers(message.payload))
		elif message.type == _client.PREDICT:
			_out["predict"] = _client.numbers(message.payload)
			_out["sequence"] = message.sequence
	if _client.answer != null and not _out.has("answer"):
		_out["answer"] = _client.answer
		print("greeted")
		if _row.size() > 0:
			_out["asked"] = _client.send_numbers(_client.PREDICT, _row)
	if _client.error != "":
		_out = {"error": _client.error}
	var complete = _out.has("poses") and _out["poses"].size() >= _poses and (_out.has("predict") or _row.size() == 0)
	if _out.has("error") or complete:
		print(JSON.print(_out))
		quit()
	if _left < 0:
		quit()
	return false


func _json(path):
	var file = File.new()
	file.open(path, File.READ)
	return JSON.parse(file.get_as_text()).result
