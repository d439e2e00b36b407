"""What the active controller is about to write: records that its image already has.

The image of the active controller is ahead of what is committed. If it loses its leadership, the
image is thrown away; answers wait until what they say is committed.
"""

from cluster.files.messages import Message, encode_message
from cluster.reference.controller.image import MetadataImage
from cluster.reference.machine import Nanoseconds
from cluster.reference.settings import Settings


class Draft:
    """Records of one decision, which are appended as one batch: all or none of them.

    Attributes:
        image: With the records that were written so far.
        settings: The node's.
        now: When it is decided.
        values: The records' bytes.
    """

    def __init__(
        self, image: MetadataImage, *, settings: Settings, offset: int, now: Nanoseconds
    ) -> None:
        self.image = image
        self.settings = settings
        self.now = now
        self.values: list[bytes] = []
        self._offset = offset

    @property
    def next_offset(self) -> int:
        """Where the next record will stand in the metadata log: a broker's epoch (KIP-631)."""
        return self._offset + len(self.values)

    def write(self, message: Message) -> None:
        """Add a record, and replay it."""
        self.image.replay(message, self.next_offset)
        self.values.append(encode_message(message))
