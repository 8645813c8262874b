-- written by the program before history schema 2, then dumped
BEGIN TRANSACTION;
CREATE TABLE attempts (
    instance TEXT NOT NULL, number INTEGER NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (instance, number)) STRICT, WITHOUT ROWID;
INSERT INTO "attempts" VALUES('x',1,'{"number": 1, "launch_id": "aa", "settings": {"max_num_seqs": 256}}');
CREATE TABLE events (
    number INTEGER PRIMARY KEY, instance TEXT, document TEXT NOT NULL) STRICT;
INSERT INTO "events" VALUES(1,'x','{"number": 1, "at": 1790000120.0, "instance": "x", "event": "incident-opened", "text": "incident 1: ", "data": {"incident": 1}}');
INSERT INTO "events" VALUES(2,'x','{"number": 2, "at": 1790000240.0, "instance": "x", "event": "incident-resolved", "text": "incident 1 resolved: attempt 2 is ready with max_num_seqs 128", "data": {"incident": 1}}');
INSERT INTO "events" VALUES(3,'x','{"number": 3, "at": 1790000360.0, "instance": "x", "event": "incident-opened", "text": "incident 2: ", "data": {"incident": 2}}');
INSERT INTO "events" VALUES(4,'x','{"number": 4, "at": 1790000540.0, "instance": "x", "event": "incident-opened", "text": "incident 3: ", "data": {"incident": 3}}');
INSERT INTO "events" VALUES(5,'y','{"number": 5, "at": 1790000660.0, "instance": "y", "event": "incident-opened", "text": "incident 4: ", "data": {"incident": 4}}');
INSERT INTO "events" VALUES(6,'y','{"number": 6, "at": 1790000780.0, "instance": "y", "event": "incident-resolved", "text": "incident 4 resolved: stopped by uid 0", "data": {"incident": 4}}');
CREATE TABLE incidents (
    number INTEGER PRIMARY KEY, instance TEXT, document TEXT NOT NULL) STRICT;
INSERT INTO "incidents" VALUES(1,'x','{"number": 1, "instance": "x", "opened": 1790000060.0, "resolved": 1790000180.0, "attempt": 1, "exit_status": null, "diagnosis": {"failure": "gpu_out_of_memory", "phase": "serving", "site": null, "signature": null, "confidence": "certain", "ranks": [], "gpus": [], "figures": {}, "evidence": [], "consequences": [], "engine_version": null, "summary": "", "incomplete": false, "advice": null}, "decision": {"remedy": "relaunch_with", "changes": [{"setting": "max_num_seqs", "from": 256, "to": 128}], "useless": [], "price": null, "reason": "less", "arithmetic": [], "options": [], "delay_seconds": 0.0}, "settings_before": {"max_num_seqs": 256}, "settings_after": {"max_num_seqs": 128}, "incomplete": false, "excerpt": [], "resolution": "attempt 2 is ready with max_num_seqs 128"}');
INSERT INTO "incidents" VALUES(2,'x','{"number": 2, "instance": "x", "opened": 1790000300.0, "resolved": 1790000480.0, "attempt": 2, "exit_status": null, "diagnosis": {"failure": "gpu_out_of_memory", "phase": "serving", "site": null, "signature": null, "confidence": "certain", "ranks": [], "gpus": [], "figures": {}, "evidence": [], "consequences": [], "engine_version": null, "summary": "", "incomplete": false, "advice": null}, "decision": {"remedy": "relaunch_with", "changes": [{"setting": "max_num_seqs", "from": 256, "to": 128}], "useless": [], "price": null, "reason": "less", "arithmetic": [], "options": [], "delay_seconds": 0.0}, "settings_before": {"max_num_seqs": 256}, "settings_after": {"max_num_seqs": 128}, "incomplete": false, "excerpt": [], "resolution": "followed by incident 3", "part_of": 1}');
INSERT INTO "incidents" VALUES(3,'x','{"number": 3, "instance": "x", "opened": 1790000420.0, "resolved": null, "attempt": 3, "exit_status": null, "diagnosis": {"failure": "gpu_out_of_memory", "phase": "serving", "site": null, "signature": null, "confidence": "certain", "ranks": [], "gpus": [], "figures": {}, "evidence": [], "consequences": [], "engine_version": null, "summary": "", "incomplete": false, "advice": null}, "decision": {"remedy": "relaunch_with", "changes": [{"setting": "max_num_seqs", "from": 256, "to": 128}], "useless": [], "price": null, "reason": "less", "arithmetic": [], "options": [], "delay_seconds": 0.0}, "settings_before": {"max_num_seqs": 256}, "settings_after": {"max_num_seqs": 128}, "incomplete": false, "excerpt": [], "resolution": null, "part_of": 1}');
INSERT INTO "incidents" VALUES(4,'y','{"number": 4, "instance": "y", "opened": 1790000600.0, "resolved": 1790000720.0, "attempt": 1, "exit_status": null, "diagnosis": {"failure": "gpu_out_of_memory", "phase": "serving", "site": null, "signature": null, "confidence": "certain", "ranks": [], "gpus": [], "figures": {}, "evidence": [], "consequences": [], "engine_version": null, "summary": "", "incomplete": false, "advice": null}, "decision": {"remedy": "relaunch_with", "changes": [{"setting": "max_num_seqs", "from": 256, "to": 128}], "useless": [], "price": null, "reason": "less", "arithmetic": [], "options": [], "delay_seconds": 0.0}, "settings_before": {"max_num_seqs": 256}, "settings_after": {"max_num_seqs": 128}, "incomplete": false, "excerpt": [], "resolution": "stopped by uid 0"}');
CREATE TABLE learned (
    instance TEXT PRIMARY KEY, document TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "learned" VALUES('x','{"envelopes": []}');
CREATE INDEX incidents_of_instance ON incidents (instance, number);
COMMIT;
PRAGMA user_version = 1;
