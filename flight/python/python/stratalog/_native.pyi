from typing import Callable, Generator, Generic, Optional, TypeVar, Union, final

T = TypeVar("T")

class Error(Exception):
    """What went wrong, where, and how to mend it."""

    sqlstate: Optional[str]
    hint: Optional[str]
    retryable: bool
    needs_new_time: bool

class ConnectionFailed(Error):
    """The server cannot be reached, refused the login, or took too long."""

class Refused(Error):
    """The server refused a statement or an event: `sqlstate` says why."""

class Closed(Error):
    """What was released or has run out cannot be used."""

class Invalid(Error):
    """An argument, an option or a URL is not one that is taken."""

@final
class Event:
    """A raw event. `gsn` is its position in the log, which names it for ever; `time_ns` is when its tick begins."""

    tick: int
    gsn: int
    time_ns: int
    payload: bytes

@final
class Gap:
    """Events are missing from position `gsn` on: `what` says which, and why."""

    gsn: int
    what: str

@final
class Receipt:
    """An event is recorded. `tick` and `time_ns` are None where the server decides on them; `gsn` is None when the
    acknowledgement was lost with its connection, and the event was not. `new_ticks` is how often its tick was
    refused."""

    tick: Optional[int]
    time_ns: Optional[int]
    gsn: Optional[int]
    durability: Optional[str]
    new_ticks: int

@final
class ClockSync:
    """How this machine's monotonic clock and the server's go together: `time_ns` is the server's time, at most
    `error_ns` off; the monotonic clock divided by `drift`, plus `distance_ns`, is the server's."""

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
    """Something to be done: waited for or awaited, once."""

    def wait(self) -> T: ...
    def start(self, told: Callable[[T, Optional[BaseException]], None]) -> Running: ...
    def __await__(self) -> Generator[object, None, T]: ...

@final
class Running:
    """A call that runs by itself."""

    def cancel(self) -> None: ...

@final
class Feed(Generic[T]):
    """Events on their way: `more` waits for some, `take` takes what is there."""

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
