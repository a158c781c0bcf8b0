//! The file system of a program: what it can do, what it cannot, what it may take.

use rehearsal_sandboxes::{End, Execution, File, Limits, Program};

use crate::support::python;

fn limits() -> Limits {
    Limits { fuel: 4_000_000_000, wall_ms: 120_000, ..Limits::default() }
}

fn run(source: &str) -> Execution {
    python().execute(&Program::new(source, 3), &limits())
}

#[track_caller]
fn prints(source: &str, expected: &str) {
    let ended = run(source);
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert_eq!((ended.end, printed.trim_end()), (End::Exited, expected), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_program_starts_in_its_own_directory() {
    prints(
        "import os\nprint(os.getcwd(), os.listdir('.'), sorted(os.listdir('/')))",
        "/work [] ['dev', 'tmp', 'usr', 'work']",
    );
}

#[test]
fn what_is_written_is_read_again() {
    prints(
        "with open('a.txt', 'w') as f: f.write('one\\ntwo\\n')\n\
         with open('a.txt', 'a') as f: f.write('three\\n')\n\
         with open('a.txt', 'r+b') as f:\n    f.seek(4); f.write(b'TWO'); f.seek(0, 2); print(f.tell())\n\
         print(open('/work/a.txt').read().split())",
        "14\n['one', 'TWO', 'three']",
    );
}

#[test]
fn paths_libraries_and_temporary_files() {
    prints(
        "import os, pathlib, shutil, tempfile\n\
         p = pathlib.Path('d/e'); p.mkdir(parents=True); (p / 'f').write_text('x')\n\
         shutil.copytree('d', 'g'); print(sorted(str(q) for q in pathlib.Path('.').rglob('*')))\n\
         shutil.rmtree('d'); print(os.path.exists('d'))\n\
         shutil.make_archive('z', 'zip', 'g'); shutil.unpack_archive('z.zip', 'h'); print(open('h/e/f').read())\n\
         with tempfile.TemporaryDirectory() as t: open(t + '/k', 'w').close(); print(os.listdir(t))\n\
         print(os.path.exists(t), os.stat('z.zip').st_size > 0)\n\
         with tempfile.NamedTemporaryFile('w+') as t: t.write('tmp'); t.seek(0); print(t.read())",
        "['d', 'd/e', 'd/e/f', 'g', 'g/e', 'g/e/f']\nFalse\nx\n['k']\nFalse True\ntmp",
    );
}

#[test]
fn archives_and_modules_of_its_own() {
    prints(
        "import zipfile, tarfile, io, sys\n\
         with zipfile.ZipFile('a.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('m.txt', 'body' * 100)\n\
         with zipfile.ZipFile('a.zip') as z: print(z.namelist(), len(z.read('m.txt')))\n\
         open('helper.py', 'w').write('def f(): return 42')\nimport helper; print(helper.f())\n\
         with tarfile.open('a.tar.gz', 'w:gz') as t: t.add('helper.py')\n\
         print(tarfile.open('a.tar.gz').getnames(), sys.argv)",
        "['m.txt'] 400\n42\n['helper.py'] ['program.py']",
    );
}

#[test]
fn links_lead_where_they_say_and_never_out() {
    prints(
        "import os\n\
         open('a', 'w').write('A'); os.symlink('a', 'b'); os.symlink('/work/b', 'c')\n\
         print(open('c').read(), os.readlink('b'), os.path.islink('c'), os.lstat('b').st_size)\n\
         os.link('a', 'h'); os.remove('a'); print(open('h').read(), os.path.exists('b'))\n\
         os.symlink('loop', 'loop')\n\
         try: open('loop')\nexcept OSError as e: print(e.strerror)\n\
         print(sorted(os.listdir('../../../..')), sorted(os.listdir('/work/../..')))\n\
         for p in ('/etc/passwd', '../../etc/passwd', '/proc/self/exe', '//etc/hosts'):\n    print(os.path.exists(p), end=' ')",
        "A a True 1\nA False\nSymbolic link loop\n['dev', 'tmp', 'usr', 'work'] ['dev', 'tmp', 'usr', 'work']\nFalse False False False",
    );
}

#[test]
fn renaming_and_deleting_as_posix_has_it() {
    prints(
        "import os\n\
         open('a', 'w').write('A'); open('b', 'w').write('B'); os.replace('a', 'b'); print(open('b').read(), os.listdir('.'))\n\
         f = open('b', 'r+'); os.remove('b'); print(f.read(), os.path.exists('b')); f.write('more'); f.seek(0); print(f.read()); f.close()\n\
         os.makedirs('d/e')\n\
         for act in (lambda: os.rename('d', 'd/e/f'), lambda: os.rmdir('d'), lambda: os.remove('d'), lambda: os.mkdir('d')):\n\
         \x20   try: act(); print('done')\n    except OSError as e: print(type(e).__name__, e.errno)\n\
         os.rename('d/e', 'e'); os.rmdir('d'); print(os.listdir('.'))",
        "A ['b']\nA False\nAmore\nOSError 28\nOSError 55\nIsADirectoryError 31\nFileExistsError 20\n['e']",
    );
}

#[test]
fn holes_read_as_zeros_and_count() {
    prints(
        "import os\n\
         with open('s', 'wb') as f: f.seek(1000); f.write(b'x'); f.truncate(2000)\n\
         data = open('s', 'rb').read(); print(len(data), data.count(0), os.stat('s').st_size)\n\
         with open('s', 'r+b') as f: f.truncate(3)\n\
         print(open('s', 'rb').read())\n\
         a, b = open('log', 'a'), open('log', 'a')\n\
         for i in range(3):\n    a.write(f'a{i} '); a.flush(); b.write(f'b{i} '); b.flush()\n\
         print(open('log').read())",
        "2000 1999 2000\nb'\\x00\\x00\\x00'\na0 b0 a1 b1 a2 b2",
    );
}

#[test]
fn the_library_and_the_root_cannot_be_changed() {
    prints(
        "import os\n\
         for act in (lambda: open('/x', 'w'), lambda: os.mkdir('/x'), lambda: os.remove('/usr/local/lib/python315.zip'), \
         lambda: open('/usr/local/lib/python315.zip', 'r+b'), lambda: os.rename('/usr', '/work/usr'), lambda: os.rmdir('/work'), \
         lambda: os.symlink('a', '/dev/a'), lambda: os.utime('/usr'), lambda: os.link('/usr/local/lib/python315.zip', 'z')):\n\
         \x20   try: act(); print('done')\n    except OSError as e: print(e.errno, end=' ')",
        "69 69 69 69 69 69 69 69 69",
    );
}

#[test]
fn files_are_given_and_collected() {
    let program = Program {
        files: vec![
            File { path: "in/a.bin".into(), bytes: vec![0, 255] },
            File { path: "b.txt".into(), bytes: b"b".to_vec() },
        ],
        collect: vec!["out".into(), "b.txt".into(), "none".into()],
        arguments: vec!["one".into(), "zwei ü".into()],
        ..Program::new(
            "import os, sys\nos.makedirs('out/deep')\nopen('out/deep/c', 'wb').write(open('in/a.bin', 'rb').read() * 2)\n\
             os.symlink('..', 'out/up')\nopen('out/z', 'w').close()\nopen('b.txt', 'a').write('!')\nprint(sys.argv[1:])",
            0,
        )
    };
    let ended = python().execute(&program, &limits());
    assert_eq!(ended.end, End::Exited, "{ended:?}");
    let files: Vec<_> = ended.files.iter().map(|file| (file.path.as_str(), file.bytes.as_slice())).collect();
    assert_eq!(files, [("b.txt", b"b!".as_slice()), ("out/deep/c", &[0, 255, 0, 255]), ("out/z", b"")]);
    assert_eq!(ended.stdout, "['one', 'zwei ü']\n".as_bytes());
}

#[test]
fn nothing_of_one_run_is_there_in_the_next() {
    let writes = "import os\nfor d in ('/work', '/tmp'):\n    open(d + '/canary', 'w').write('x' * 100000)\nf = open('/work/held', 'w')";
    let looks = "import os\nprint(os.listdir('/work'), os.listdir('/tmp'))\nprint(os.open('/work', os.O_RDONLY))";
    for _ in 0..50 {
        assert_eq!(run(writes).end, End::Exited);
        assert_eq!(String::from_utf8_lossy(&run(looks).stdout), "[] []\n4\n");
    }
}

#[test]
fn devices() {
    prints(
        "import os\nopen('/dev/null', 'w').write('x' * 1000)\nprint(repr(open('/dev/null').read()))\n\
         open('/dev/stdout', 'w').write('direct\\n')\nprint(open('/dev/stdin').read() == '', os.path.exists('/dev/fd'))",
        "''\ndirect\nTrue False",
    );
}

#[test]
fn a_database_in_a_file() {
    prints(
        "import os, sqlite3\n\
         with sqlite3.connect('/work/d.sqlite') as c:\n\
         \x20   c.execute('create table t(a int, b text)')\n\
         \x20   c.executemany('insert into t values (?, ?)', [(i, str(i)) for i in range(1000)])\n\
         c.close()\n\
         c = sqlite3.connect('d.sqlite'); print(c.execute('select sum(a), count(b) from t').fetchone())\n\
         try:\n    with c: c.execute('delete from t'); 1 / 0\nexcept ZeroDivisionError: pass\n\
         print(c.execute('select count(*) from t').fetchone(), os.listdir('.'))",
        "(499500, 1000)\n(1000,) ['d.sqlite']",
    );
}
