from typing import Callable, Generator, Generic, Optional, TypeVar, Union, final

T = TypeVar("T")

class Error(Exception):
    """A failure, its place, and a hint to fix it."""

    sqlstate: Optional[str]
    hint: Optional[str]
    retryable: bool
    needs_new_time: bool

class ConnectionFailed(Error):
    """The server is unreachable, refused the login, or exceeded a timeout."""

class Refused(Error):
    """The server refused a statement or an event: `sqlstate` is the reason."""

class Closed(Error):
    """The object was released or its lease has run out."""

class Invalid(Error):
    """An argument, an option or a URL is invalid."""

@final
class Event:
    """A raw event. `gsn` is its permanent position in the log; `time_ns` is the start of its tick."""

    tick: int
    gsn: int
    time_ns: int
    payload: bytes

@final
class Gap:
    """Events are missing from position `gsn` on: `what` is the missing range and the reason."""

    gsn: int
    what: str

@final
class Receipt:
    """The receipt of a recorded event. `tick` and `time_ns` are None if the server assigns ticks; `gsn` is None if the
    acknowledgement was lost with its connection although the event was stored. `new_ticks` is the number of refused
    ticks."""

    tick: Optional[int]
    time_ns: Optional[int]
    gsn: Optional[int]
    durability: Optional[str]
    new_ticks: int

@final
class ClockSync:
    """A comparison of this machine's monotonic clock with the server's clock: `time_ns` is the server's time, with an
    error of at most `error_ns`; the monotonic clock divided by `drift`, plus `distance_ns`, is the server's time."""

    time_ns: int
    error_ns: int
    drift: float
    distance_ns: int
    round_trip_ns: int
    epoch: int
    jumps: int

@final
class Range:
    @staticmethod
    def all() -> Range: ...
    @staticmethod
    def times(start_ns: Optional[int], end_ns: Optional[int]) -> Range: ...
    @staticmethod
    def ticks(start: Optional[int], end: Optional[int]) -> Range: ...
    @staticmethod
    def gsns(start: Optional[int], end: Optional[int]) -> Range: ...

@final
class Call(Generic[T]):
    """An operation to wait for or to await, once."""

    def wait(self) -> T: ...
    def start(self, deliver: Callable[[T, Optional[BaseException]], None]) -> Running: ...
    def __await__(self) -> Generator[object, None, T]: ...

@final
class Running:
    """A call running in the background."""

    def cancel(self) -> None: ...

@final
class Feed(Generic[T]):
    """Arriving events: `more` waits for events, `take` returns the events that have arrived."""

    def more(self, seconds: Optional[float]) -> Call[bool]: ...
    def take(self) -> list[T]: ...

@final
class Chronolog:
    def disconnect(self) -> Call[None]: ...
    def sync_clock(self) -> Call[ClockSync]: ...
    def time_ns(self) -> Optional[tuple[int, int]]: ...
    def create(
        self,
        name: str,
        index: str,
        collision: Optional[str],
        time_source: Optional[str],
        options: list[tuple[str, str]],
    ) -> Call[None]: ...
    def edit(
        self, name: str, new_name: Optional[str], index: Optional[str], options: list[tuple[str, str]]
    ) -> Call[None]: ...
    def destroy(self, name: str, how: str) -> Call[None]: ...
    def acquire(
        self,
        name: str,
        *,
        exclusive: bool,
        range: Optional[Range],
        time: Optional[float],
        lease: float,
        wait: bool,
        wait_seconds: Optional[float],
        new_ticks: int,
        retry_collisions: bool,
        durability: Optional[str],
    ) -> Call[Chronicle]: ...
    def execute(self, sql: str) -> Call[int]: ...

@final
class Chronicle:
    @property
    def name(self) -> str: ...
    @property
    def index(self) -> str: ...
    @property
    def base_ns(self) -> int: ...
    @property
    def lapses(self) -> int: ...
    def record(self, payload: bytes) -> Call[Receipt]: ...
    def record_batch(self, payloads: list[bytes]) -> Call[list[Receipt]]: ...
    def append(self, payload: bytes) -> Call[Call[Receipt]]: ...
    def flush(self) -> Call[int]: ...
    def playback(self, count: int) -> Call[list[Event]]: ...
    def read_record(self, gsn: int) -> Call[Optional[Event]]: ...
    def replay(self, ranges: list[Range], constraint: Optional[str]) -> Call[Feed[Event]]: ...
    def subscribe(
        self, gsn: Optional[int], time_ns: Optional[int], live: bool, constraint: Optional[str]
    ) -> Call[Feed[Union[Event, Gap]]]: ...
    def release(self) -> Call[None]: ...
    def release_in(self, time: float) -> Call[None]: ...
    def execute(self, sql: str) -> Call[int]: ...

def connect(
    url: str,
    *,
    user: Optional[str] = None,
    password: Optional[str] = None,
    database: Optional[str] = None,
    application_name: Optional[str] = None,
    connect_seconds: Optional[float] = None,
    retry_seconds: Optional[float] = None,
) -> Call[Chronolog]: ...
