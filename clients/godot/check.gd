# SPDX-License-Identifier: GPL-3.0-or-later
# Says what a server answers, as one line of JSON: godot3-server -s check.gd PORT TOKEN HELLO.json ROW.json
# The handshake's answer, the first pose that is pushed, and the answer to the prediction of the numbers in ROW.json.
extends SceneTree

var _client = preload("nik_client.gd").new()
var _row = []
var _out = {}
var _left = 120.0


func _init():
	var words = OS.get_cmdline_args()
	var last = words.size()
	_row = _json(words[last - 1])
	_client.open(_json(words[last - 2]), "127.0.0.1", int(words[last - 4]), words[last - 3])


func _idle(delta):
	_left -= delta
	for message in _client.poll():
		if message.type == _client.POSE:
			_out["pose"] = _client.numbers(message.payload)
		elif message.type == _client.PREDICT:
			_out["predict"] = _client.numbers(message.payload)
			_out["sequence"] = message.sequence
	if _client.answer != null and not _out.has("answer"):
		_out["answer"] = _client.answer
		_out["asked"] = _client.send_numbers(_client.PREDICT, _row)
	if _client.error != "":
		_out = {"error": _client.error}
	if _out.has("error") or (_out.has("pose") and _out.has("predict")):
		print(JSON.print(_out))
		quit()
	if _left < 0:
		quit()
	return false


func _json(path):
	var file = File.new()
	file.open(path, File.READ)
	return JSON.parse(file.get_as_text()).result
