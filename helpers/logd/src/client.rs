//! Clients as they come in, and a client's connection that is not closed under its hands when logd ends.
//!
//! So many may be connected; one that reads nothing gives its place to a new one ([`kelson_helper::places`]). While no descriptor is
//! free nobody is taken in, and it is tried again: logd needs those that it has for the files.
//!
//! HTTP/2 clients still send acknowledgements while they read the last lines; one that finds the socket closed then gives
//! up before it has read them. So at the end the connections are shut down for writing, kept, and closed by the client.

use std::future::Future;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::admission::{Admission, Asked};
use super::store::Store;
use super::troubles::Troubles;
use kelson_helper::places::{Call, Place, Places};

/// More than may read at the same time: a client above the limit gets an answer.
const CONNECTIONS: usize = 96;
/// Before the next try when there is no descriptor or no memory for a connection.
const SHORTAGE: Duration = Duration::from_millis(200);
/// Then a client goes that has read nothing for so long; one that has just come may be about to.
const IDLE: Duration = Duration::from_secs(2);

/// Connections that logd has done with and clients have not.
pub type Leaving = Arc<Mutex<Vec<UnixStream>>>;

/// See the module.
pub struct Client {
    stream: Option<UnixStream>,
    store: Arc<Store>,
    leaving: Leaving,
    asked: Asked,
    place: Arc<Place>,
    given_away: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

/// The process at the other end.
#[derive(Clone)]
pub struct Peer {
    /// Whether it may read.
    pub asked: Asked,
    place: Arc<Place>,
}

impl Peer {
    /// It reads until this is dropped, and keeps its place.
    pub fn call(&self) -> Call {
        self.place.call()
    }
}

/// Takes clients in and hands them over, until nobody takes them any more.
pub async fn take_in(
    listener: UnixListener,
    clients: mpsc::Sender<Client>,
    store: Arc<Store>,
    leaving: Leaving,
    admission: Arc<Admission>,
    troubles: Arc<Troubles>,
) {
    let places = Places::new(CONNECTIONS);
    let mut short = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if std::mem::take(&mut short) {
                    troubles.tell("clients who read logs are taken in again".to_owned());
                }
                let Some(place) = places.take() else { continue };
                let asked = admission.ask(stream.as_fd());
                let client = Client::new(stream, store.clone(), leaving.clone(), asked, place);
                if clients.send(client).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut short, true) {
                    troubles.tell(format!("clients who read logs cannot be taken in: {error}; trying again"));
                }
                // The descriptor of one who reads nothing may be what is missing.
                places.make_room(IDLE);
                tokio::time::sleep(SHORTAGE).await;
            }
        }
    }
}

impl Client {
    fn new(stream: UnixStream, store: Arc<Store>, leaving: Leaving, asked: Asked, place: Place) -> Client {
        let given_away = Box::pin(place.given_away());
        Client { stream: Some(stream), store, leaving, asked, place: Arc::new(place), given_away }
    }

    pub fn peer(&self) -> Peer {
        Peer { asked: self.asked.clone(), place: Arc::clone(&self.place) }
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut UnixStream>> {
        self.get_mut().stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.store.is_closed() {
            self.leaving.lock().unwrap_or_else(PoisonError::into_inner).extend(self.stream.take());
        }
    }
}

/// Waits until the clients have closed their ends; cancelled by dropping.
pub async fn left(leaving: &Leaving) {
    let streams = std::mem::take(&mut *leaving.lock().unwrap_or_else(PoisonError::into_inner));
    let mut rest = [0; 512];
    for stream in streams {
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut rest) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => break,
            }
        }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stream.is_some() && self.given_away.as_mut().poll(context).is_ready() {
            self.stream = None;
        }
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
