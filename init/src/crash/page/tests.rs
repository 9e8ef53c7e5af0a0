use super::*;

const POWER_OFF: Ending = Ending { action: ShutdownAction::PowerOff, status: None };

fn facts(text: &[u8]) -> Facts<'_> {
    Facts { cause: Cause::Panic, signal: 11, code: -6, sender: 77, address: 0xdead, text }
}

#[test]
fn a_crash_is_read_as_it_was_written() {
    let page = Page::make().unwrap();
    assert_eq!(page.newest(), None);
    page.write(&facts(b"it broke"));
    for frame in 0..100 {
        assert_eq!(page.add_frame(frame), frame < FRAMES as u64);
    }
    let crash = page.newest().unwrap();
    assert_eq!(crash.cause, Cause::Panic);
    assert_eq!((crash.signal, crash.code, crash.sender, crash.address), (11, -6, 77, 0xdead));
    assert_eq!(crash.text, "it broke");
    assert_eq!(crash.frames, (0..FRAMES as u64).collect::<Vec<_>>());
    assert!(!crash.thread.is_empty());
    page.reported();
    assert_eq!(page.newest(), None);
    // The next one has nothing of the one before.
    page.write(&facts(b"x"));
    let crash = page.newest().unwrap();
    assert_eq!((crash.text.as_str(), crash.frames.len()), ("x", 0));
}

#[test]
fn a_long_text_is_cut_where_a_character_ends() {
    let page = Page::make().unwrap();
    page.write(&facts("ab€".repeat(100).as_bytes()));
    let text = page.newest().unwrap().text;
    assert!(text.len() <= TEXT * 8 && text.len() > TEXT * 8 - 4, "{}", text.len());
    assert!("ab€".repeat(100).starts_with(&text));
}

#[test]
fn crashes_of_a_time_are_counted() {
    let page = Page::make().unwrap();
    let before = now();
    for n in 1..=3 {
        page.write(&facts(b""));
        assert_eq!(page.crashes_since(before), n);
    }
    assert_eq!(page.crashes_since(now() + Duration::from_secs(1)), 0);
    for _ in 0..2000 {
        page.write(&facts(b""));
    }
    assert_eq!(usize::try_from(page.crashes_since(Duration::ZERO)), Ok(TIMES));
}

#[test]
fn the_next_program_finds_it_and_nothing_else() {
    let page = Page::make().unwrap();
    page.write(&facts(b"found"));
    page.end(POWER_OFF);
    let named = CString::new(format!("{VARIABLE}={}", page.memory.as_raw_fd())).unwrap();
    let environment = vec![c"KELSON_CRASHES=77".to_owned(), c"KELSON_CRASHESX=1".to_owned()];
    assert_eq!(page.name_in(environment), [c"KELSON_CRASHESX=1".to_owned(), named]);
    // A duplicate, since the finder becomes its owner.
    let other = page.memory.try_clone().unwrap();
    let number = std::os::fd::IntoRawFd::into_raw_fd(other).to_string();
    let found = Page::find(&number.into()).unwrap();
    assert_eq!(found.newest(), page.newest());
    assert_eq!(found.ending(), Some(POWER_OFF));
    for status in [Some(0), Some(255), None] {
        page.end(Ending { status, ..POWER_OFF });
        assert_eq!(found.ending(), Some(Ending { status, ..POWER_OFF }));
    }
    for wrong in ["", "x", "-1", "0", "2", "100000"] {
        assert!(Page::find(&wrong.into()).is_none(), "{wrong}");
    }
    let stranger = tempfile_descriptor();
    assert!(Page::find(&stranger.as_raw_fd().to_string().into()).is_none());
}

#[test]
fn whatever_stands_in_it_is_read() {
    let page = Page::make().unwrap();
    let mut state = 1_u64;
    for round in 0..500 {
        for word in page.all().iter().skip(1).filter(|word| !std::ptr::eq(*word, &page.words.length)) {
            // Numbers near the ends are what counts and lengths go wrong with.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            set(word, [state, state >> 60, u64::MAX - (state >> 60)][round % 3]);
        }
        if let Some(crash) = page.newest() {
            assert!(crash.frames.len() <= FRAMES && crash.text.len() <= TEXT * 8 * 3);
            assert!(!crate::crash::report::what(&crash).is_empty());
        }
        assert!(page.crashes_since(Duration::ZERO) as usize <= TIMES);
        let _ = page.ending();
        // And is written on.
        page.write(&facts(b"it broke"));
        page.add_frame(1);
        page.reported();
        assert_eq!(page.newest(), None);
    }
}

fn tempfile_descriptor() -> OwnedFd {
    memfd_create(c"stranger", MFdFlags::MFD_CLOEXEC).unwrap()
}

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/state");
/// Words that a later release has behind those of this one.
const LATER: usize = 512;

/// A page as the next incarnation finds it.
fn page_of(bytes: &[u8]) -> Page {
    let memory = memfd_create(c"stored", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    nix::unistd::write(&memory, bytes).unwrap();
    fcntl(&memory, FcntlArg::F_ADD_SEALS(SEALS)).unwrap();
    let number = std::os::fd::IntoRawFd::into_raw_fd(memory).to_string();
    Page::find(&OsString::from(number)).unwrap()
}

#[test]
fn the_stored_crashes_of_each_release_are_read() {
    let folders = std::fs::read_dir(STORED).unwrap().map(|folder| folder.unwrap());
    // Release 0.1.0 executes no release with another format of state.
    let folders = folders.filter(|folder| folder.path().is_dir() && folder.file_name() != "0.1.0");
    let mut releases = 0;
    for folder in folders {
        let page = page_of(&std::fs::read(folder.path().join("crashes")).unwrap());
        let crash = page.newest().unwrap();
        assert_eq!((crash.cause, crash.signal, crash.code), (Cause::Panic, 11, -6));
        assert_eq!((crash.sender, crash.address), (77, 0xdead));
        assert_eq!((&*crash.text, crash.frames), ("it broke", vec![7, 8]));
        assert!(!crash.time.is_zero() && !crash.thread.is_empty());
        assert_eq!(page.crashes_since(crash.time), 1);
        assert_eq!(page.crashes_since(Duration::ZERO), 2);
        assert_eq!((page.ending(), page.is_last()), (Some(POWER_OFF), true));
        page.reported();
        assert_eq!(page.newest(), None);
        releases += 1;
    }
    assert!(releases > 1, "there is no stored state: run hack/state-fixture");
}

/// For hack/state-fixture.
#[test]
#[ignore = "writes to tests/state"]
fn record_stored_state() {
    let page = Page::make().unwrap();
    page.write(&Facts { cause: Cause::Stall, signal: 0, code: 0, sender: 0, address: 0, text: b"" });
    std::thread::sleep(Duration::from_millis(1));
    page.write(&facts(b"it broke"));
    page.add_frame(7);
    page.add_frame(8);
    page.end(POWER_OFF);
    page.make_last();
    let bytes = |page: &Page| page.all().iter().flat_map(|word| get(word).to_le_bytes()).collect::<Vec<u8>>();
    let store = |release: &str, bytes: Vec<u8>| {
        std::fs::write(std::path::Path::new(STORED).join(release).join("crashes"), bytes).unwrap();
    };
    store(env!("CARGO_PKG_VERSION"), bytes(&page));
    set(&page.words.length, (SIZE + LATER) as u64);
    store("variant", [bytes(&page), vec![7; LATER * 8]].concat());
}
