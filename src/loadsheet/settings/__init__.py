"""Settings: every setting, declared once; where values come from; and the settings of one shipper."""

from loadsheet.settings.model import EMBEDDED, Settings, every_field
from loadsheet.settings.sections import ReadingSettings
from loadsheet.settings.shippers import shippers_in
from loadsheet.settings.sources import CONFIG_FILE

__all__ = ["CONFIG_FILE", "EMBEDDED", "ReadingSettings", "Settings", "every_field", "shippers_in"]
